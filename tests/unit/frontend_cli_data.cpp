// The tool as a process: weights, dtypes, dims and scalars from outside.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "cli_bench.hpp"
#include "frontend/npy.hpp"
#include "safetensors_help.hpp"

using namespace braid;
using namespace braid::testing;

TEST_CASE("check compares the weights, run loads them, --weights names others") {
  const Bench b;
  const HostTensor x = random_tensor({DType::f32, {4, 8}}, 41, "x");
  const HostTensor w = random_tensor({DType::f32, {8, 5}}, 42, "w");
  const HostTensor other = random_tensor({DType::f32, {8, 5}}, 43, "w");
  write_npy(b.at("x.npy"), x);
  write_npy(b.at("w.npy"), w);
  testing::write_safetensors(b.at("w.safetensors"), {{"w", w}, {"head.bias", x}});
  testing::write_safetensors(b.at("other.safetensors"), {{"w", other}});
  fs::create_directory(b.at("arrays"));
  write_npy(b.at("arrays/w.npy"), w);
  write_text(b.at("n.toml"), text_of(b.at("m.toml")) +
                                 "[weights]\nfile = \"w.safetensors\"\nignore = [\"head.*\"]\n");
  const std::string run = "--device sim --input x=@x.npy ";
  expect(b.braid("run m.toml " + run + "--param w=@w.npy --output h=@h.npy"), 0);
  expect(b.braid("run m.toml " + run + "--expect h=@h.npy"), 5);  // random weights
  expect(b.braid("run n.toml " + run + "--expect h=@h.npy"), 0);
  expect(b.braid("run n.toml " + run + "--expect h=@h.npy --weights other.safetensors"), 5);
  expect(b.braid("run n.toml " + run +
                 "--expect h=@h.npy --weights other.safetensors "
                 "--param w=@w.npy"),
         0);
  expect(b.braid("run m.toml " + run + "--expect h=@h.npy --weights arrays"), 0);
  expect(b.braid("opt m.toml --until simplify > m.bir"), 0);
  expect(b.braid("run m.bir " + run + "--expect h=@h.npy --weights arrays"), 0);
  if (nvrtc_is_there(b)) {
    expect(b.braid("compile n.toml -o n.braid"), 0);
    expect(b.braid("run n.braid " + run + "--expect h=@h.npy --weights arrays"), 0);
    expect(b.braid("check n.braid --weights x.npy"), 1, "x.npy");
  }

  Bench::Result r = b.braid("check n.toml");
  expect(r, 0);
  CHECK(has(r.out, ", weights fit w.safetensors\n"));
  CHECK(!has(b.braid("check m.toml").out, "weights"));
  expect(b.braid("check m.toml --weights w.safetensors"), 1,
         "w.safetensors: error[E0113]: the model has no param for 1 of the 2 tensors");
  expect(b.braid("check m.toml --weights nowhere"), 1,
         "error[E0100]: cannot read the weights 'nowhere': No such file");
  write_npy(b.at("arrays/w.npy"), x);
  r = b.braid("run m.toml --device sim --weights arrays");
  expect(r, 1, "error[E0114]: 1 of the 1 tensor in 'arrays' does not fit the params");
  CHECK(has(r.err, "'w' is f32[8,5], the tensor is f32[4,8]"));
  fs::remove(b.at("w.safetensors"));
  r = b.braid("check n.toml");
  expect(r, 1, "n.toml:18:8: error[E0100]: cannot read the weights 'w.safetensors': No such file");
  CHECK(has(r.err, "--weights PATH names another"));
}

TEST_CASE("--dtype replaces the file's") {
  const Bench b;
  std::string text = text_of(b.at("m.toml"));
  while (has(text, "\"f32\"")) text.replace(text.find("\"f32\""), 5, "\"T\"");
  write_text(b.at("t.toml"), text + "[dtypes]\nT = \"f32\"\n");
  CHECK(has(b.braid("inspect t.toml --show=all").out, "f32[4,8]"));
  const std::string half = b.braid("inspect t.toml --show=all --dtype T=bf16").out;
  CHECK(has(half, "bf16[4,8]"));
  CHECK(!has(half, " f32[4,8]"));
  expect(b.braid("run t.toml --device sim --dtype=T=f16"), 0);
  expect(b.braid("check t.toml --dtype T=half"), 2, "--dtype takes NAME=DTYPE");
  expect(b.braid("check t.toml --dtype T=f16 --dtype T=bf16"), 2, "--dtype 'T' is given twice");
  expect(b.braid("check t.toml --dtype T"), 2, "--dtype takes NAME=DTYPE");
  expect(b.braid("check t.toml --dtype U=f16"), 2, "the model has no dtype 'U'");
  expect(b.braid("opt t.toml --until simplify > t.bir"), 0);
  expect(b.braid("check t.bir --dtype T=f16"), 2, "--dtype belongs to the [dtypes]");
}

TEST_CASE("check says what it could not check for want of a dim") {
  const Bench b;
  std::string text = text_of(b.at("m.toml"));
  text.replace(text.find("default = 4, "), 13, "");
  write_text(b.at("open.toml"), text);
  Bench::Result r = b.braid("check open.toml");
  expect(r, 0);
  CHECK(has(r.out, "open.toml: ok, "));
  CHECK(has(r.out,
            "not checked: what depends on the values of B, which have no default; give them "
            "as --dim B=N\n"));
  r = b.braid("check open.toml --dim B=3");
  expect(r, 0);
  CHECK(!has(r.out, "not checked"));
  expect(b.braid("check open.toml --dim C=3"), 2, "no dim 'C'");
  expect(b.braid("inspect open.toml"), 1, "dim 'B' has no value");
}

TEST_CASE("dims come from the inputs' files, where no flag gives them") {
  const Bench b;
  write_text(b.at("d.toml"), R"(format = 1
[dims]
B = { default = 1, max = 8 }
T = {}
[inputs]
x = { dtype = "f32", shape = ["B", "T"] }
y = { dtype = "f32", shape = ["T", "B*T"] }
z = { dtype = "f32", shape = ["B"] }
[graph]
nodes = [
  { out = "s", op = "reduce_sum", in = "x" },
  { out = "t", op = "add", in = ["s", "z"] },
  { out = "r", op = "reduce_sum", in = "y" },
]
[outputs]
t = "t"
r = "r"
)");
  write_npy(b.at("x.npy"), random_tensor({DType::f32, {3, 5}}, 51, "x"));
  write_npy(b.at("y.npy"), random_tensor({DType::f32, {5, 15}}, 52, "y"));
  write_npy(b.at("z.npy"), random_tensor({DType::f32, {2}}, 53, "z"));
  const std::string run = "run d.toml --device sim ";
  Bench::Result r = b.braid(run + "--input x=@x.npy --input y=@y.npy");
  expect(r, 0);
  CHECK(r.err == "dims from inputs: B=3 T=5\n");
  CHECK(has(r.out, "t f32[3]"));
  CHECK(b.braid(run + "--input y=@y.npy --dim B=3").err == "dims from inputs: T=5\n");
  CHECK(b.braid(run + "--input x=@x.npy --dim B=3 --dim T=5").err.empty());
  r = b.braid(run + "--input x=@x.npy --dim B=4 --dim T=9");
  expect(r, 1, "error[E0802]: --dim B=4, but x.npy for 'x' has 3");
  CHECK(has(r.err, "give --dim B=3 --dim T=5, or leave it out"));
  expect(b.braid(run + "--input x=@x.npy --input z=@z.npy"), 1,
         "the inputs do not agree on 'B': it is 3 in x.npy and 2 in z.npy");
  // Not a symbol alone, so it tells nothing, and the tensor is compared as ever.
  write_npy(b.at("y.npy"), random_tensor({DType::f32, {5, 16}}, 54, "y"));
  expect(b.braid(run + "--input x=@x.npy --input y=@y.npy"), 1,
         "'y' is f32[5,15], but y.npy holds f32[5,16]");
  write_npy(b.at("x.npy"), random_tensor({DType::f32, {9, 5}}, 55, "x"));
  expect(b.braid(run + "--input x=@x.npy"), 1, "error[E0603]");
  expect(b.braid(run + "--dim B=2 --dim B=3"), 2, "--dim 'B' is given twice");
}

TEST_CASE("--set gives runtime scalars their values") {
  const Bench b;
  write_text(b.at("s.toml"), R"(format = 1
[inputs]
x = { dtype = "f32", shape = [4] }
[scalars]
gain = { dtype = "f32", value = 1 }
pos = { dtype = "i32" }
on = { dtype = "b1", value = true }
[graph]
nodes = [
  { out = "p", op = "cast", in = "pos", dtype = "f32" },
  { out = "a", op = "mul", in = ["x", "gain"] },
  { out = "s", op = "add", in = ["a", "p"] },
  { out = "y", op = "select", in = ["on", "s", -1] },
]
[outputs]
y = "y"
)");
  const HostTensor x = random_tensor({DType::f32, {4}}, 3, "x");
  write_npy(b.at("x.npy"), x);
  CHECK(has(b.braid("check s.toml").out, "1 inputs, 3 scalars, 0 params"));
  const std::string run = "run s.toml --device sim --input x=@x.npy ";
  const auto y = [&](const std::string& flags) {
    expect(b.braid(run + "--output y=@y.npy " + flags), 0);
    return read_npy(b.at("y.npy"));
  };
  CHECK(y("").at(2) == x.at(2));
  CHECK(y("--set pos=-3 --set=gain=2.5e0").at(2) ==
        doctest::Approx(x.at(2) * 2.5 - 3).epsilon(1e-6));
  expect(b.braid(run + "--set gain=2 --set gain=3"), 2, "--set 'gain' is given twice");
  CHECK(y("--set pos=step --set gain=0").at(2) == 0);
  CHECK(y("--set pos=step --set gain=0 --steps 6").at(2) == 5);
  CHECK(y("--set gain=step --set pos=7 --steps 3").at(2) ==
        doctest::Approx(x.at(2) * 2 + 7).epsilon(1e-6));
  expect(b.braid(run + "--set on=step --steps 3"), 1, "b1, which cannot hold 2");
  expect(b.braid("bench s.toml --set pos=step"), 2, "bench: --set takes a number");
  CHECK(y("--set on=false").at(2) == -1);
  expect(b.braid(run + "--set poss=3"), 2,
         "--set: the model has no scalar 'poss'; did you mean 'pos'?");
  expect(b.braid(run + "--set pos"), 2,
         "--set takes NAME=NUMBER, or NAME=step for the number of the launch, not 'pos'");
  expect(b.braid(run + "--set pos=3x"), 2, "--set takes NAME=NUMBER");
  expect(b.braid(run + "--set pos=1.5"), 1, "i32, which cannot hold 1.5");
}
