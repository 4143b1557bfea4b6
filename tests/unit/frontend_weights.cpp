// Params from files of weights: names, types, conversions, and what is refused.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "frontend/compile.hpp"
#include "frontend/npy.hpp"
#include "frontend/toml.hpp"
#include "frontend/weights.hpp"
#include "safetensors_help.hpp"
#include "temp_folder.hpp"

using namespace braid;
using testing::TempFolder;
using testing::write_safetensors;
namespace fs = std::filesystem;

namespace {

using Tensors = std::vector<std::pair<std::string, HostTensor>>;

HostTensor random(DType dtype, Shape shape, const std::string& name) {
  return random_tensor({dtype, shape}, 77, name);
}

/// Params with these names and types, and a folder for the file.
struct Setup {
  TempFolder folder;
  std::vector<WeightSpec> specs{{"layer.0/w", DType::f32, {2, 3}}, {"layer.0/b", DType::f32, {3}}};

  std::string file(const Tensors& tensors) const {
    const std::string path = folder.path + "/w.safetensors";
    write_safetensors(path, tensors);
    return path;
  }
  std::vector<Diagnostic> errors(const WeightsFrom& from) const {
    try {
      check_weights(specs, from);
    } catch (const Error& e) {
      return e.diagnostics();
    }
    return {};
  }
};

}  // namespace

TEST_CASE("weights: '/' and '.' are one in names, and other names are told apart") {
  Setup s;
  const HostTensor w = random(DType::f32, {2, 3}, "w"), b = random(DType::f32, {3}, "b");
  CHECK(s.errors({s.file({{"layer.0.w", w}, {"layer.0.b", b}})}).empty());
  CHECK(s.errors({s.file({{"layer.0/w", w}, {"layer/0/b", b}})}).empty());
  CHECK(s.errors({s.file({{"layer.0/w", w}, {"layer.0.b", b}})}).empty());

  // E0115: two tensors for one param, none of them by its very name; two params for one tensor.
  std::vector<Diagnostic> e =
      s.errors({s.file({{"layer.0.w", w}, {"layer/0/w", w}, {"layer.0.b", b}})});
  REQUIRE(e.size() == 1);
  CHECK(e[0].code == "E0115");
  CHECK(e[0].details[0] == "param 'layer.0/w' could be 'layer.0.w' or 'layer/0/w'");
  s.specs.push_back({"layer/0.w", DType::f32, {2, 3}});
  e = s.errors({s.file({{"layer.0.w", w}, {"layer.0.b", b}})});
  REQUIRE(e.size() == 1);
  CHECK(e[0].code == "E0115");
  CHECK(e[0].details[0] == "'layer.0.w' could be param 'layer.0/w' or 'layer/0.w'");
  CHECK(s.errors({s.file({{"layer.0/w", w}, {"layer/0.w", w}, {"layer.0.b", b}})}).empty());
}

TEST_CASE("weights: missing, left over and wrongly shaped tensors come at once, with names") {
  Setup s;
  const HostTensor w = random(DType::f32, {3, 2}, "w"), b = random(DType::f32, {3}, "b");
  const std::string path = s.file({{"layer.0.w", w}, {"layer.0.bias", b}});
  std::vector<Diagnostic> e = s.errors({path});
  REQUIRE(e.size() == 3);
  CHECK(e[0].code == "E0112");
  CHECK(e[0].message == fmt::format("'{}' lacks 1 of the 2 params of the model", path));
  CHECK(e[0].details[0] == "'layer.0/b'  f32[3]  did you mean 'layer.0.bias'?");
  CHECK(e[0].place.file == path);
  CHECK(e[1].code == "E0113");
  CHECK(e[1].details[0] == "'layer.0.bias'  f32[3]");
  CHECK(e[1].suggestion.find("ignore") != std::string::npos);
  CHECK(e[2].code == "E0114");
  CHECK(e[2].details[0] ==
        "'layer.0/w' is f32[2,3], the tensor is f32[3,2]: transposed; declare it as the file has "
        "it and use linear or matmul with tb = true");

  // Ten names and how many more.
  Tensors many;
  for (int i = 0; i < 25; ++i) many.emplace_back(fmt::format("t{:02}", i), b);
  e = s.errors({s.file(many)});
  REQUIRE(e.size() == 2);
  REQUIRE(e[1].details.size() == 11);
  CHECK(e[1].details[9] == "'t09'  f32[3]");
  CHECK(e[1].details[10] == "and 15 more");
}

TEST_CASE("weights: a prefix that one side lacks is suggested") {
  Setup s;
  const HostTensor w = random(DType::f32, {2, 3}, "w"), b = random(DType::f32, {3}, "b");
  const auto e = s.errors({s.file({{"model.layer.0.w", w}, {"model.layer.0.b", b}})});
  REQUIRE(e.size() == 2);
  CHECK(e[0].details[0] == "'layer.0/w'  f32[2,3]  did you mean 'model.layer.0.w'?");
}

TEST_CASE("weights: dtypes of another kind are refused, extents without a value fit all") {
  Setup s;
  const HostTensor b = random(DType::f16, {3}, "b");
  auto e = s.errors({s.file({{"layer.0.w", random(DType::i32, {2, 3}, "w")}, {"layer.0.b", b}})});
  REQUIRE(e.size() == 1);
  CHECK(e[0].code == "E0114");
  CHECK(e[0].details[0].find("do not become each other") != std::string::npos);
  s.specs[0].extents = {-1, 3};
  CHECK(s.errors({s.file({{"layer.0.w", random(DType::f64, {9, 3}, "w")}, {"layer.0.b", b}})})
            .empty());
  e = s.errors({s.file({{"layer.0.w", random(DType::f64, {9, 4}, "w")}, {"layer.0.b", b}})});
  REQUIRE(e.size() == 1);
  CHECK(e[0].details[0] == "'layer.0/w' is f32[?,3], the tensor is f64[9,4]");
}

TEST_CASE("weights: state may miss, given params may, and ignored tensors may be there") {
  Setup s;
  const HostTensor w = random(DType::f32, {2, 3}, "w"), b = random(DType::f32, {3}, "b");
  const std::string path = s.file({{"layer.0.w", w}, {"head.x", b}, {"head.y", b}});
  CHECK(s.errors({path}).size() == 2);
  CHECK(s.errors({path, {}, {"head.x", "head.y"}, {"layer.0/b"}}).empty());
  CHECK(s.errors({path, {}, {"*ead.*"}, {"layer.0/b"}}).empty());
  CHECK(s.errors({path, {}, {"head.x*y"}, {"layer.0/b"}}).size() == 1);
  CHECK(s.errors({path, {}, {"*e*d.x**", "h*ead.y"}, {"layer.0/b"}}).empty());
  CHECK(s.errors({path, {}, {"h*e*a**d.*"}, {"layer.0/b"}}).empty());
  CHECK(s.errors({path, {}, {"head"}, {"layer.0/b"}}).size() == 1);
  CHECK(s.errors({path, {}, {"ead.*"}, {"layer.0/b"}}).size() == 1);
  s.specs[1].may_miss = true;
  CHECK(s.errors({path, {}, {"head.*"}, {}}).empty());
  const auto e = s.errors({path, {}, {"*"}, {}});
  REQUIRE(e.size() == 1);
  CHECK(e[0].details[0] == "'layer.0/w'  f32[2,3]  (it is listed in 'ignore')");
}

TEST_CASE("weights: many wrong names and many stars take no time") {
  Setup s;
  const HostTensor one = random(DType::f32, {1}, "one");
  Tensors tensors{{std::string(70, 'a'), one}};
  s.specs.clear();
  for (int i = 0; i < 3000; ++i) {
    tensors.emplace_back(fmt::format("encoder.layers.{}.self_attention.query.weight", i), one);
    s.specs.push_back({fmt::format("decoder_blocks_{}_mlp_gate_proj_kernel", i), DType::f32, {1}});
  }
  std::string stars;
  for (int i = 0; i < 14; ++i) stars += "*a";
  const auto e = s.errors({s.file(tensors), {}, {stars, stars + "*b"}, {}});
  REQUIRE(e.size() == 2);
  CHECK(e[0].details.size() == 11);
  CHECK(e[1].message.find("3000 of the 3001 tensors") != std::string::npos);
}

TEST_CASE("weights: what a file must hold follows from the graph and from the plan") {
  Graph g("m");
  const Tensor x = g.input("x", {f32, {"B", 4}});
  const Tensor w = g.param("w", {f16, {4, "B"}});
  const Tensor seen = g.param("seen", {i64, {}}, {.init = ir::Init::zeros});
  const Tensor kept = g.param("kept", {f32, {"B", 4}});
  g.dim("B", 3);
  g.assign(seen, g.read(seen) + 1.0);
  g.assign(kept, x);
  g.output("y", matmul(x, cast(w, f32)));
  const std::vector<WeightSpec> open = weight_specs(g.ir());
  const std::vector<WeightSpec> bound = weight_specs(compile(g));
  REQUIRE(open.size() == 3);
  REQUIRE(bound.size() == 3);
  CHECK(open[0].extents == std::vector<int64_t>{4, -1});
  CHECK(bound[0].extents == std::vector<int64_t>{4, 3});
  for (const auto& specs : {open, bound}) {
    CHECK(specs[0].name == "w");
    CHECK(specs[0].dtype == DType::f16);
    CHECK(!specs[0].may_miss);
    CHECK(specs[1].may_miss);   // state from zeros
    CHECK(!specs[2].may_miss);  // written, but random at first
  }
}

TEST_CASE("weights: loaded values are the file's, in the param's dtype") {
  const TempFolder folder;
  Graph g("m");
  const Tensor x = g.input("x", {f32, {4, 8}});
  const Tensor w = g.param("l/w", {bf16, {8, 5}});
  const Tensor n = g.param("n", {i32, {3}});
  g.output("y", matmul(cast(x, bf16), w));
  g.output("n", n + 1.0);
  const Program p = compile(g);
  Store store(Device::open("sim"));
  store.declare(p);
  const HostTensor wide = random(DType::f64, {8, 5}, "w"), ints = random(DType::i64, {3}, "n");
  const std::string path = folder.path + "/w.safetensors";
  write_safetensors(path, {{"l.w", wide}, {"n", ints}});
  load_weights(store, p, {path});
  const HostTensor got = store.get("l/w");
  for (int64_t i = 0; i < got.numel(); ++i) {
    CHECK(got.at(i) == bf16_to_f32(f64_to_bf16(wide.at(i))));
    CHECK(got.at(i) == doctest::Approx(wide.at(i)).epsilon(0.005));
  }
  for (int64_t i = 0; i < 3; ++i) CHECK(store.get("n").int_at(i) == ints.int_at(i));

  // The same from a folder of arrays, whose names hold the folders.
  fs::create_directories(folder.path + "/arrays/l");
  write_npy(folder.path + "/arrays/l/w.npy", wide);
  write_npy(folder.path + "/arrays/n.npy", ints);
  std::ofstream(folder.path + "/arrays/config.json") << "{}";
  Store other(Device::open("sim"));
  other.declare(p);
  load_weights(other, p, {folder.path + "/arrays"});
  CHECK(other.get("l/w").bytes == got.bytes);
  // And from the parts of a large model.
  fs::remove(folder.path + "/arrays/l/w.npy");
  write_safetensors(folder.path + "/arrays/model-00001-of-00002.safetensors", {{"l.w", wide}});
  Store third(Device::open("sim"));
  third.declare(p);
  load_weights(third, p, {folder.path + "/arrays"});
  CHECK(third.get("l/w").bytes == got.bytes);
  write_safetensors(folder.path + "/arrays/model-00002-of-00002.safetensors", {{"n", ints}});
  try {
    load_weights(third, p, {folder.path + "/arrays"});
    FAIL("a tensor that is there twice was loaded");
  } catch (const Error& e) {
    CHECK(e.diagnostics()[0].code == "E0115");
  }
}

TEST_CASE("weights: a value that the dtype cannot hold is refused (E0116)") {
  const TempFolder folder;
  const auto error = [&](DType param, HostTensor t) -> std::string {
    Graph g("m");
    const Tensor p = g.param("p", {param, {4}});
    g.output("y", g.read(p));
    const Program program = compile(g);
    Store store(Device::open("sim"));
    store.declare(program);
    write_safetensors(folder.path + "/w.safetensors", {{"p", std::move(t)}});
    try {
      load_weights(store, program, {folder.path + "/w.safetensors"});
    } catch (const Error& e) {
      return e.diagnostics()[0].code + ": " + e.diagnostics()[0].message;
    }
    return {};
  };
  HostTensor t = random(DType::f32, {4}, "t");
  CHECK(error(DType::f16, t).empty());
  t.set(2, 70000.0);
  CHECK(error(DType::f16, t).find("E0116: tensor 'p' in '") == 0);
  CHECK(error(DType::f16, t).find("element 2 is 70000, which f16 cannot hold") !=
        std::string::npos);
  CHECK(error(DType::bf16, t).empty());
  t.set(2, std::numeric_limits<double>::infinity());
  CHECK(error(DType::f16, t).empty());
  HostTensor i = random(DType::i64, {4}, "i");
  CHECK(error(DType::u8, i).empty());
  i.set_int(1, -1);
  CHECK(error(DType::u8, i).find("element 1 is -1, which u8 cannot hold") != std::string::npos);
}

TEST_CASE("weights: a model file names its own, beside itself") {
  const TempFolder folder;
  const std::string model = folder.path + "/m.toml";
  const auto read = [&](std::string_view section) {
    std::ofstream(model, std::ios::trunc) << "format = 1\n"
                                          << section << R"(
[params]
w = { dtype = "f32", shape = [2] }
[graph]
nodes = [ { out = "y", op = "neg", in = "w" } ]
[outputs]
y = "y"
)";
    return load_toml(model);
  };
  CHECK(!read("").weights);
  const auto weights = read("[weights]\nfile = \"a/w.safetensors\"\nignore = [\"x.*\"]").weights;
  REQUIRE(weights);
  CHECK(weights->path == folder.path + "/a/w.safetensors");
  CHECK(weights->ignore == std::vector<std::string>{"x.*"});
  CHECK(weights->place.line == 3);
  CHECK(read("[weights]\nfile = \"/a/w.safetensors\"").weights->path == "/a/w.safetensors");
  try {
    check_weights({}, *weights);
    FAIL("a file that is not there was read");
  } catch (const Error& e) {
    CHECK(e.diagnostics()[0].code == "E0100");
    CHECK(e.diagnostics()[0].place.file == model);
    CHECK(e.diagnostics()[0].message.find("a/w.safetensors': No such file") != std::string::npos);
    CHECK(e.diagnostics()[0].suggestion.find("--weights") != std::string::npos);
  }
}
