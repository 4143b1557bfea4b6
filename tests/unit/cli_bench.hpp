// The tool as a process, in a folder of its own.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "temp_folder.hpp"

namespace braid::testing {

namespace fs = std::filesystem;

inline std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

inline bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// A folder to work in, with a model in it and a cache that nobody else uses.
struct Bench {
  TempFolder folder;
  struct Result {
    int code = -1;
    std::string out, err;
  };

  Bench() {
    write_text(at("m.toml"), R"(format = 1
name = "m"
[dims]
B = { default = 4, max = 64 }
[inputs]
x = { dtype = "f32", shape = ["B", 8] }
[params]
w = { dtype = "f32", shape = [8, 5] }
[graph]
nodes = [
  { out = "h", op = "matmul", in = ["x", "w"] },
  { out = "y", op = "softmax", in = ["h"] },
]
[outputs]
y = "y"
h = "h"
)");
  }

  std::string at(const std::string& name) const { return folder.path + "/" + name; }

  /// Runs `braid` and the words of a shell in the folder. Redirections may follow.
  Result braid(const std::string& words, const std::string& before = {}) const {
    const std::string command = fmt::format(
        "cd '{}' && {{ {} BRAID_CACHE='{}/cache' NO_COLOR= FORCE_COLOR= '{}' {}; }} > "
        "'{}/.out' 2> '{}/.err' < /dev/null",
        folder.path, before, folder.path, BRAID_TOOL, words, folder.path, folder.path);
    const int status = std::system(command.c_str());
    REQUIRE(WIFEXITED(status));
    return {WEXITSTATUS(status), text_of(at(".out")), text_of(at(".err"))};
  }

  /// The visible files, for "nothing is left behind".
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& e : fs::directory_iterator(folder.path)) {
      const std::string name = e.path().filename().string();
      if (name[0] != '.' && name != "cache") names.insert(name);
    }
    return names;
  }
};

inline void expect(const Bench::Result& r, int code, std::string_view err = {}) {
  INFO("stdout: ", r.out, "\nstderr: ", r.err);
  CHECK(r.code == code);
  CHECK(has(r.err, err));
  if (code != 0 && code != 5) CHECK(r.out.empty());
}

inline bool gpu_is_there(const Bench& b) { return !has(b.braid("env").out, "device   none"); }
inline bool nvrtc_is_there(const Bench& b) { return !has(b.braid("env").out, "nvrtc    none"); }

}  // namespace braid::testing
