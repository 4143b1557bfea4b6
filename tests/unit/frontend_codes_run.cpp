// Codes that no model file shows: each with the call that earns it.
#include <doctest/doctest.h>

#include <functional>

#include "frontend/compile.hpp"
#include "frontend/npy.hpp"
#include "runtime/driver.hpp"
#include "runtime/simulator.hpp"
#include "temp_folder.hpp"

using namespace braid;

namespace {

std::string code_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    CHECK(!e.diagnostics()[0].message.empty());
    return e.diagnostics()[0].code;
  }
  return "none";
}

/// The simulator, but one that claims to be a GPU: it needs cubins.
class Claims : public runtime::Driver {
 public:
  bool simulated() const override { return false; }
#define BRAID_CALL(name, version, params, args) \
  CUresult name params override { return inner_->name args; }
#include "runtime/driver_calls.inc"
#undef BRAID_CALL

 private:
  std::shared_ptr<runtime::Simulator> inner_ = runtime::make_simulator();
};

void double_it(Graph& g, DType dtype) {
  const Tensor p = g.param("p", {dtype, {4}});
  g.output("y", g.read(p) + g.read(p));
}

}  // namespace

TEST_CASE("codes of the store, of devices and of tensors") {
  Graph g("g"), other("other");
  double_it(g, f32);
  double_it(other, f64);
  const Program p = compile(g), q = compile(other);
  Store store(Device::open("sim"));
  store.declare(p);
  CHECK(code_of([&] { store.set("q", HostTensor({f32, {4}})); }) == "E0810");
  CHECK(code_of([&] { store.get("pp"); }) == "E0810");
  CHECK(code_of([&] { store.declare(q); }) == "E0811");
  CHECK(code_of([&] { store.set("p", HostTensor({f32, {5}})); }) == "E0812");
  CHECK(code_of([&] { Device::open("cuda:0"); }) == "E0801");
  CHECK(code_of([&] { Device::open("-1"); }) == "E0801");
  DimTable dims;
  CHECK(code_of([&] { HostTensor({f32, {dims.symbol("B")}}); }) == "E0803");
}

TEST_CASE("a program whose kernels are not compiled is E0813 on a GPU") {
  Graph g("g");
  double_it(g, f32);
  const Device device = Device::on(std::make_shared<Claims>());
  CHECK(code_of([&] { Executable(compile(g), Store(device)); }) == "E0813");
}

TEST_CASE("a file that is no .npy is E0110") {
  const testing::TempFolder folder;
  CHECK(code_of([&] { read_npy(std::string(BRAID_SOURCE_DIR) + "/README.md"); }) == "E0110");
  CHECK(code_of([&] { read_npy(folder.path + "/none.npy"); }) == "E0100");
}
