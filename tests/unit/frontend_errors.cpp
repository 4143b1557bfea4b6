// Every model in tests/errors must be refused with exactly the text beside it.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "frontend/toml.hpp"

namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(BRAID_SOURCE_DIR) / "tests/errors";

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<fs::path> files(const fs::path& folder, std::string_view extension) {
  std::vector<fs::path> list;
  for (const auto& e : fs::directory_iterator(folder)) {
    if (e.path().extension() == extension) list.push_back(e.path());
  }
  std::sort(list.begin(), list.end());
  return list;
}

/// What a user sees; nothing if the model is accepted.
std::string errors_of(const std::string& text, const std::string& file) {
  try {
    braid::read_toml(text, file);
  } catch (const braid::Error& e) {
    braid::RenderOptions options;
    options.source = [&](const std::string&) { return text; };
    return braid::render(e.diagnostics(), options);
  }
  return {};
}

}  // namespace

TEST_CASE("each faulty model is refused with the expected text") {
  const bool bless = std::getenv("BRAID_BLESS") != nullptr;
  const std::vector<fs::path> models = files(kFolder, ".toml");
  REQUIRE(models.size() > 30);
  for (const fs::path& model : models) {
    const std::string name = model.filename().string();
    const std::string got = errors_of(read_file(model), name);
    CAPTURE(name);
    if (got.empty()) {
      FAIL_CHECK(name << " was accepted");
      continue;
    }
    fs::path expected = model;
    expected.replace_extension(".expected");
    if (bless) std::ofstream(expected, std::ios::binary) << got;
    const std::string want = read_file(expected);
    if (got != want) {
      FAIL_CHECK(name << ": the text differs; if the new one is right, run the test again with "
                         "BRAID_BLESS=1\n--- expected\n"
                      << want << "--- got\n"
                      << got);
    }
    // A case named by a code must show it.
    if (name.substr(0, 2) == "E0") {
      CHECK_MESSAGE(got.find("error[" + name.substr(0, 5) + "]") != std::string::npos,
                    name << " does not show its code");
    }
  }
}

TEST_CASE("the reader gives no code without a case") {
  std::set<std::string> given, shown;
  const std::regex code("\"(E0[0-9]{3})\"");
  for (const fs::path& source : files(fs::path(BRAID_SOURCE_DIR) / "frontend", ".cpp")) {
    if (source.filename().string().substr(0, 5) != "toml_") continue;
    const std::string text = read_file(source);
    for (std::sregex_iterator i(text.begin(), text.end(), code), end; i != end; ++i) {
      given.insert((*i)[1]);
    }
  }
  const std::regex error("error\\[(E0[0-9]{3})\\]");
  for (const fs::path& expected : files(kFolder, ".expected")) {
    const std::string text = read_file(expected);
    for (std::sregex_iterator i(text.begin(), text.end(), error), end; i != end; ++i) {
      shown.insert((*i)[1]);
    }
  }
  const std::regex named("E0[0-9]{3}");
  for (const fs::path& test : files(fs::path(BRAID_SOURCE_DIR) / "tests/unit", ".cpp")) {
    const std::string text = read_file(test);
    for (std::sregex_iterator i(text.begin(), text.end(), named), end; i != end; ++i) {
      shown.insert((*i)[0]);
    }
  }
  REQUIRE(given.size() > 15);
  for (const std::string& c : given) {
    CHECK_MESSAGE(shown.count(c) > 0, "no case in tests/errors and no test shows " << c);
  }
}

TEST_CASE("a cut or garbled model is refused or read, never worse") {
  // Cuts a good model at every place and swaps characters: no crash, no InternalError.
  const std::string good = read_file(fs::path(BRAID_SOURCE_DIR) / "examples/encoder.toml");
  REQUIRE(errors_of(good, "encoder.toml").empty());
  int refused = 0;
  for (size_t i = 0; i < good.size(); i += 23) {
    refused += !errors_of(good.substr(0, i), "cut.toml").empty();
  }
  CHECK(refused > 50);
  const std::string characters = "\"[]{}=,.#-0aZ \n/*(";
  uint64_t seed = 7;
  for (int round = 0; round < 150; ++round) {
    std::string text = good;
    for (int k = 0; k < 2; ++k) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      const size_t at = static_cast<size_t>(seed >> 33) % text.size();
      text[at] = characters[static_cast<size_t>(seed >> 20) % characters.size()];
    }
    CHECK_NOTHROW(errors_of(text, "garbled.toml"));
  }
}
