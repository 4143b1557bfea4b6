#include "fuzz.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "frontend/compile.hpp"
#include "ir/diagnostic.hpp"
#include "ir/text.hpp"
#include "passes/pipeline.hpp"

namespace braid::fuzz {
namespace {

/// Kernel text takes milliseconds: enough runs a second need small graphs.
constexpr size_t kOpsCompiled = 30;

}  // namespace

void fail(const std::string& what) {
  std::fprintf(stderr, "fuzz: %s\n", what.c_str());
  std::abort();
}

void check_graph(const ir::Graph& graph) {
  const std::vector<Diagnostic> wrong = ir::verify(graph);
  if (!wrong.empty()) fail("accepted, but malformed: " + wrong[0].message);
  const std::string text = ir::print(graph);
  std::string again;
  try {
    again = ir::print(ir::parse(text, "again"));
  } catch (const Error& error) {
    fail("the printed graph is refused: " + std::string(error.what()) + "\n" + text);
  }
  if (again != text) fail("printed, read and printed again differ:\n" + text + "----\n" + again);
  if (graph.ops().size() > kOpsCompiled) return;
  Options options;
  options.verify = true;
  try {
    compile(graph, options);
  } catch (const Error&) {
  }
}

const std::string& memory_file(const uint8_t* data, size_t size) {
  static const int file = ::memfd_create("fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (file < 0 || ::ftruncate(file, 0) != 0 ||
      ::pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) {
    fail("cannot write a file in memory");
  }
  return path;
}

}  // namespace braid::fuzz
