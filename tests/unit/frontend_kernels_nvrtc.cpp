// Kernels of the user's by NVRTC: what it compiles, what it keeps, and what it says of mistakes.
#include <doctest/doctest.h>

#include <fstream>
#include <functional>

#include "frontend/compile.hpp"
#include "frontend/toml.hpp"
#include "passes/check.hpp"
#include "runtime/nvrtc.hpp"
#include "temp_folder.hpp"

using namespace braid;
using braid::testing::TempFolder;

namespace {

const std::string kExamples = std::string(BRAID_SOURCE_DIR) + "/examples";

void write(const std::string& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

const Kernel& user_kernel(const Program& p) {
  for (const Kernel& k : p.kernels) {
    if (k.code == Code::user) return k;
  }
  throw std::logic_error("no kernel of the user's");
}

/// A program with one kernel over f32[8] -> f32[8], unless `parameters` says something else.
Program one(const std::string& code, const std::string& function = "f",
            std::vector<std::string> parameters = {"in x: f32[N]", "out y: f32[N]", "i32 N"},
            std::vector<std::string> include = {}) {
  Graph g("one");
  std::vector<In> in;
  for (const std::string& p : parameters) {
    if (!p.starts_with("in")) continue;
    const size_t colon = p.find(": "), bracket = p.find('[');
    const std::string dtype = p.substr(colon + 2, bracket - colon - 2);
    in.emplace_back(g.input("x" + std::to_string(in.size()), {*dtype_from_name(dtype), {8}}));
  }
  const auto results = g.kernel({.name = "mine",
                                 .code = code,
                                 .file = "mine.cu",
                                 .function = function,
                                 .parameters = std::move(parameters),
                                 .include = std::move(include),
                                 .line = 5},
                                in);
  for (size_t i = 0; i < results.size(); ++i) g.output("y" + std::to_string(i), results[i]);
  return compile(g);
}

/// Where there is no NVRTC nothing is tested here.
bool has_nvrtc() {
  try {
    runtime::nvrtc();
    return true;
  } catch (const NoDevice& e) {
    MESSAGE("skipped: ", e.what());
    return false;
  }
}

std::vector<Diagnostic> mistakes(Program p) {
  try {
    runtime::compile_modules(p, runtime::Cache());
  } catch (const Error& e) {
    return e.diagnostics();
  }
  return {};
}

}  // namespace

TEST_CASE("nvrtc: the example with a template, from the cache, and from a file") {
  if (!has_nvrtc()) return;
  const TomlModel model = load_toml(kExamples + "/rope.toml");
  Program p = compile(*model.graph);
  const TempFolder folder;
  const runtime::Cache cache(folder.path);
  const Program fresh = p;
  CHECK(runtime::compile_modules(p, cache).from_cache == 0);
  const Kernel& k = user_kernel(p);
  CHECK(k.symbol.starts_with("_Z4ropeILi64EEvPKf"));
  CHECK(check(p).empty());
  Program again = fresh;
  const runtime::CompileStats stats = runtime::compile_modules(again, cache);
  CHECK(stats.compiled == 0);
  CHECK(user_kernel(again).symbol == k.symbol);
  CHECK(again.modules[k.module].image == p.modules[k.module].image);

  const Program read = read_program(write_program(p));
  CHECK(user_kernel(read).symbol == k.symbol);
  CHECK(user_kernel(read).parameters == k.parameters);
  CHECK(read.modules[k.module].file == p.modules[k.module].file);
  CHECK(check(read).empty());
  // On the simulator too, whatever the symbols are now.
  int calls = 0;
  const HostFunction reference = [&](std::span<const HostTensor> in, std::span<HostTensor> out) {
    ++calls;
    for (int64_t i = 0; i < out[0].numel(); ++i) out[0].set(i, in[0].at(i));
  };
  Store store(Device::open("sim"));
  Executable run(read, store, {{"rope", reference}});
  std::map<std::string, HostTensor> in;
  for (const Binding& b : read.inputs) {
    in.emplace(b.name, random_tensor(read.buffers[b.buffer].type, 5, b.name));
  }
  run.run(in);
  CHECK(calls == 2);
}

TEST_CASE("nvrtc: every dtype and kind of number") {
  if (!has_nvrtc()) return;
  struct Case {
    const char* dtype;
    std::vector<const char*> types;
  };
  for (const Case& c : std::vector<Case>{{"f32", {"float"}},
                                         {"f64", {"double"}},
                                         {"f16", {"__half", "unsigned short"}},
                                         {"bf16", {"__nv_bfloat16", "unsigned short"}},
                                         {"i32", {"int", "unsigned"}},
                                         {"i64", {"long long", "long"}},
                                         {"i8", {"signed char", "char"}},
                                         {"u8", {"unsigned char"}},
                                         {"b1", {"bool", "unsigned char"}}}) {
    for (const char* type : c.types) {
      CAPTURE(type);
      const std::string t = type;
      const std::string code = (t == "__half"          ? "#include <cuda_fp16.h>\n"
                                : t == "__nv_bfloat16" ? "#include <cuda_bf16.h>\n"
                                                       : "") +
                               ("__global__ void f(const " + t + "* __restrict__ x, " + t +
                                "* y, const int n) { if (n > 3) y[3] = x[2]; }");
      const std::string d = c.dtype;
      Program p = one(code, "f", {"in x: " + d + "[N]", "out y: " + d + "[N]", "i32 N"});
      const std::vector<Diagnostic> wrong = mistakes(p);
      for (const Diagnostic& w : wrong) MESSAGE(render(w));
      CHECK(wrong.empty());
    }
  }
  Program numbers = one(
      "__global__ void f(float* y, int a, long long b, float c, double d, bool e, unsigned char g) "
      "{ y[0] = a + b + c + d + e + g; }",
      "f", {"out y: f32[4]", "i32 4", "i64 -5", "f32 0.5", "f64 1e-3", "b1 1", "u8 200"});
  CHECK(mistakes(numbers).empty());
}

TEST_CASE("nvrtc: mistakes in the code stand at its file and line") {
  if (!has_nvrtc()) return;
  const auto wrong =
      mistakes(one("__global__ void f(const float* x, float* y, int n) {\n"
                   "  y[0] = x[0]\n"
                   "  y[1] = nothing;\n"
                   "}\n"
                   "__device__ int g() { return unheard; }\n"));
  REQUIRE(wrong.size() == 2);
  CHECK(wrong[0].code == "E0880");
  CHECK(wrong[0].place.file == "mine.cu");
  CHECK(wrong[0].place.line == 7);
  CHECK(wrong[0].place.column == 3);
  CHECK(wrong[0].message == "expected a \";\"");
  CHECK(wrong[1].place.line == 9);
  CHECK(wrong[1].place.column == 29);
  CHECK(wrong[1].message.find("unheard") != std::string::npos);

  const auto missing = mistakes(one("#include \"nowhere.cuh\"\n"));
  REQUIRE(!missing.empty());
  CHECK(missing[0].code == "E0880");
  CHECK(missing[0].place.line == 5);
  CHECK(missing[0].suggestion.find("'include'") != std::string::npos);
}

TEST_CASE("nvrtc: what a function takes is compared with what the model gives it") {
  if (!has_nvrtc()) return;
  const auto only = [](const std::vector<Diagnostic>& all) {
    REQUIRE(all.size() == 1);
    return all[0];
  };
  const std::string body = " { y[0] = 1; }\n";
  Diagnostic d =
      only(mistakes(one("\n__global__ void f(const double* x, float* y, int n)" + body)));
  CHECK(d.code == "E0881");
  CHECK(d.message == "parameter 1 ('x') of f must be const float*: the model gives it f32[8]");
  CHECK(d.place.file == "mine.cu");
  CHECK(d.place.line == 6);
  CHECK(d.place.column == 17);
  d = only(mistakes(one("__global__ void f(float* x, float* y, int n)" + body)));
  CHECK(d.message == "parameter 1 ('x') of f must be const float*: the model gives it f32[8]");
  d = only(mistakes(one("__global__ void f(const float* x, float* y, long n)" + body)));
  CHECK(d.message == "parameter 3 ('N') of f must be int: the model gives it i32 8");
  d = only(mistakes(one("__global__ void f(const float* x, float* y)" + body)));
  CHECK(d.code == "E0881");
  CHECK(d.message ==
        "f takes 2 parameters, but the model gives it 3: (const float* x, float* y, int N)");
  d =
      only(mistakes(one("__global__ void f(const float* x, float* y, int n, int a, int b, int c, "
                        "int d, int e)" +
                        body)));
  CHECK(d.message.find("takes more parameters than the 3") != std::string::npos);

  d = only(mistakes(one("__global__ void ff(const float* x, float* y, int n)" + body)));
  CHECK(d.code == "E0882");
  CHECK(d.suggestion == "did you mean 'ff'?");
  d = only(
      mistakes(one("template <int n> __global__ void f(const float* x, float* y, int m)" + body)));
  CHECK(d.code == "E0882");
  CHECK(d.suggestion.find("template") != std::string::npos);
  d = only(mistakes(one("__device__ void f(const float* x, float* y, int n)" + body)));
  CHECK(d.code == "E0882");
  CHECK(d.message == "'f' is no __global__ function");
  CHECK(mistakes(one("namespace a { template <class T> __global__ void f(const T* x, T* y, int n)" +
                         body + "}",
                     "a::f<float>"))
            .empty());
  CHECK(mistakes(one("extern \"C\" __global__ void f(const float* x, float* y, int n)" + body))
            .empty());
}

TEST_CASE("nvrtc: includes, and the cache, which sees what they hold") {
  if (!has_nvrtc()) return;
  const TempFolder folder, kept;
  const std::string code =
      "#include \"size.cuh\"\n"
      "__global__ void f(const float* x, float* y, int n) { y[0] = SIZE * x[0]; }\n";
  const auto compiled = [&] {
    Program p = one(code, "f", {"in x: f32[N]", "out y: f32[N]", "i32 N"}, {folder.path});
    const runtime::CompileStats stats = runtime::compile_modules(p, runtime::Cache(kept.path));
    return std::pair(stats.compiled, p.modules[user_kernel(p).module].image);
  };
  write(folder.path + "/size.cuh", "#include \"deeper.cuh\"\n#define SIZE DEEP\n");
  write(folder.path + "/deeper.cuh", "#define DEEP 2\n");
  const auto first = compiled();
  CHECK(first.first == 1);
  CHECK(compiled() == std::pair(0, first.second));
  write(folder.path + "/deeper.cuh", "#define DEEP 3\n");
  const auto second = compiled();
  CHECK(second.first == 1);
  CHECK(second.second != first.second);
  // A mistake in a header stands there.
  write(folder.path + "/deeper.cuh", "int x = y;\n");
  const auto wrong =
      mistakes(one(code, "f", {"in x: f32[N]", "out y: f32[N]", "i32 N"}, {folder.path}));
  REQUIRE(!wrong.empty());
  CHECK(wrong[0].place.file.ends_with("deeper.cuh"));
  CHECK(wrong[0].place.line == 1);
}
