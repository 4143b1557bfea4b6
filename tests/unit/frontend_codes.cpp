// The table of diagnostic codes: complete, sorted, shown in the README, and each code tested.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "frontend/codes.hpp"

using namespace braid;
namespace fs = std::filesystem;

namespace {

const fs::path kRoot = BRAID_SOURCE_DIR;

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void collect(std::set<std::string>& to, const std::string& text, const std::regex& pattern) {
  for (std::sregex_iterator i(text.begin(), text.end(), pattern), end; i != end; ++i) {
    to.insert((*i)[1]);
  }
}

}  // namespace

TEST_CASE("codes: the table is sorted and says what is wrong and what to do") {
  REQUIRE(codes().size() > 60);
  CHECK(std::is_sorted(codes().begin(), codes().end(),
                       [](const CodeInfo& a, const CodeInfo& b) { return a.code < b.code; }));
  for (const CodeInfo& i : codes()) {
    CAPTURE(i.code);
    CHECK(std::regex_match(std::string(i.code), std::regex("E0[0-9]{3}")));
    CHECK(i.means.size() >= 10);
    CHECK(i.details.back() == '.');
    CHECK(i.wrong.empty() == i.right.empty());
    CHECK(i.means.find('|') == std::string_view::npos);  // it stands in a Markdown table
    CHECK(i.fix.find('|') == std::string_view::npos);
    CHECK(find_code(i.code) == &i);
    const std::string text = explain(i);
    CHECK(text.find(i.means) != std::string::npos);
    for (size_t at = 0, next = 0; (next = text.find('\n', at)) != std::string::npos;
         at = next + 1) {
      CHECK(next - at <= 120);
    }
  }
  CHECK(find_code("e0301") == find_code("E0301"));
  CHECK(find_code("E9999") == nullptr);
}

TEST_CASE("codes: every code that the sources give is in the table, and no other") {
  std::set<std::string> given, listed;
  const std::regex literal("\"(E0[0-9]{3})\"");
  for (const char* folder : {"frontend", "ir", "passes", "runtime"}) {
    for (const auto& e : fs::recursive_directory_iterator(kRoot / folder)) {
      const std::string name = e.path().filename().string();
      if (!e.is_regular_file() || name.substr(0, 6) == "codes_") continue;
      if (e.path().extension() == ".cpp" || e.path().extension() == ".hpp") {
        collect(given, text_of(e.path()), literal);
      }
    }
  }
  for (const CodeInfo& i : codes()) listed.insert(std::string(i.code));
  for (const std::string& c : given)
    CHECK_MESSAGE(listed.count(c) > 0, c << " is not in the table");
  for (const std::string& c : listed) CHECK_MESSAGE(given.count(c) > 0, "nothing gives " << c);
}

TEST_CASE("codes: frontend/README.md shows the table") {
  const fs::path path = kRoot / "frontend/README.md";
  std::string readme = text_of(path);
  const size_t begin = readme.find("| code | means");  // the table is the end of the file
  REQUIRE(begin != std::string::npos);
  if (readme.substr(begin) == codes_table()) return;
  if (std::getenv("BRAID_BLESS")) {
    std::ofstream(path, std::ios::binary) << readme.substr(0, begin) << codes_table();
  }
  FAIL_CHECK("the table in frontend/README.md is not that of codes.cpp; BRAID_BLESS=1 rewrites it");
}

TEST_CASE("codes: each has a model in tests/errors or a test that names it") {
  std::set<std::string> shown;
  for (const auto& e : fs::recursive_directory_iterator(kRoot / "tests/errors")) {
    if (e.path().extension() == ".expected") {
      collect(shown, text_of(e.path()), std::regex("error\\[(E0[0-9]{3})\\]"));
    }
  }
  for (const auto& e : fs::directory_iterator(kRoot / "tests/unit")) {
    if (e.path().extension() == ".cpp" && e.path().filename() != "frontend_codes.cpp") {
      collect(shown, text_of(e.path()), std::regex("(E0[0-9]{3})"));
    }
  }
  for (const CodeInfo& i : codes()) {
    CHECK_MESSAGE(shown.count(std::string(i.code)) > 0, "no test shows " << i.code);
  }
}
