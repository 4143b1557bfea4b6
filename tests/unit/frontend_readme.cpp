// The README's blocks of a command and its output are what the command prints. BRAID_BLESS=1
// rewrites them.
#include <doctest/doctest.h>

#include <cstdlib>
#include <sstream>

#include "cli_bench.hpp"

using namespace braid::testing;

TEST_CASE("golden commands of the README") {
  const Bench b;
  const std::string root = std::string(BRAID_SOURCE_DIR) + "/";
  const std::string before = text_of(root + "README.md");
  std::istringstream readme(before);
  std::string after;
  size_t shown = 0;
  for (std::string line; std::getline(readme, line);) {
    after += line + "\n";
    const std::string prompt = "$ braid ";
    if (line.rfind(prompt, 0) != 0) continue;
    CAPTURE(line);
    ++shown;
    std::string words = line.substr(prompt.size());
    const std::string folder = "examples/";
    for (size_t at = words.find(folder); at != words.npos;) {
      words.insert(at, root);
      at = words.find(folder, at + root.size() + folder.size());
    }
    std::string expected;
    for (std::string text; std::getline(readme, text) && text != "```";) expected += text + "\n";
    const std::string actual = b.braid(words).out;
    CHECK(!actual.empty());
    const char* bless = std::getenv("BRAID_BLESS");
    if (bless && std::string(bless) == "1") {
      expected = actual;
    } else {
      CHECK_MESSAGE(actual == expected,
                    "If the change is meant, run test_frontend with BRAID_BLESS=1");
    }
    after += expected + "```\n";
  }
  CHECK(shown >= 2);
  if (after != before) write_text(root + "README.md", after);
}
