// A kernel of our own in a model: rope.toml with rope.cu, and what the simulator runs in its place.
//   example_rope [rope.toml [DEVICE]]
#include <braid/braid.hpp>
#include <cmath>
#include <cstdio>
#include <exception>
#include <map>
#include <random>
#include <span>
#include <string>

using namespace braid;

namespace {

/// What rope.cu computes: arguments x, cos and sin, result y.
void rope(std::span<const HostTensor> in, std::span<HostTensor> out) {
  const int64_t half = in[1].type.shape[1].value();
  for (int64_t i = 0; i < in[1].numel(); ++i) {
    const int64_t a = i / half * 2 * half + i % half, b = a + half;
    out[0].set(a, in[0].at(a) * in[1].at(i) - in[0].at(b) * in[2].at(i));
    out[0].set(b, in[0].at(b) * in[1].at(i) + in[0].at(a) * in[2].at(i));
  }
}

int run(const std::string& file, const std::string& name) {
  const TomlModel model = load_toml(file);
  const Device device = Device::open(name);
  Executable executable = build(*model.graph, Store(device), {}, {{"rope", rope}});

  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  std::map<std::string, HostTensor> inputs;
  for (const char* input : {"x", "cos", "sin"}) {
    inputs.emplace(input, HostTensor(executable.type(input)));
  }
  for (int64_t i = 0; i < inputs.at("x").numel(); ++i) inputs.at("x").set(i, normal(random));
  const int64_t half = inputs.at("cos").type.shape[1].value();
  for (int64_t i = 0; i < inputs.at("cos").numel(); ++i) {
    const double angle =
        static_cast<double>(i / half) *
        std::pow(10000.0, -static_cast<double>(i % half) / static_cast<double>(half));
    inputs.at("cos").set(i, std::cos(angle));
    inputs.at("sin").set(i, std::sin(angle));
  }

  const std::map<std::string, HostTensor> got = executable.run(inputs);
  HostTensor wanted(got.at("q").type);
  rope(std::vector{got.at("q0"), inputs.at("cos"), inputs.at("sin")}, std::span(&wanted, 1));
  double worst = 0;
  for (int64_t i = 0; i < wanted.numel(); ++i) {
    const double error = std::abs(got.at("q").at(i) - wanted.at(i));
    if (!(error <= worst)) worst = error;
  }
  const bool good = worst < 1e-5;
  std::printf("%s: %lld queries turned, the largest error is %.2g: %s\n", device.name().c_str(),
              static_cast<long long>(wanted.type.shape[0].value()), worst,
              good ? "as the reference" : "WRONG");
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "examples/rope.toml", argc > 2 ? argv[2] : "auto");
  } catch (const Error& e) {
    std::fputs(render(e.diagnostics()).c_str(), stderr);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
  }
  return 1;
}
