// Decoding with a model of GPT-2's shape: keys and values are appended to caches in place, the
// position is a runtime scalar, the next token is chosen on the device and stays there. One graph,
// compiled once, makes every token.
//
// Run it with --help.
#include <algorithm>
#include <braid/braid.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

using namespace braid;

namespace {

constexpr char kUsage[] =
    R"(usage: gpt2 [--small] [--dtype f32|f16|bf16] [--device auto|sim|0] [--steps N] [--check] [--time]
  --small   2 layers of width 64 instead of 12 of 768
  --check   compare every token with the reference interpreter's
  --time    microseconds a token, after the tokens
)";

struct Config {
  int layers = 12, width = 768, heads = 12, context = 128, vocabulary = 50257;
  DType dtype = f32;
};

Tensor norm(Graph& g, std::string_view name, In x, const Config& c) {
  const Scope scope = g.scope(name);
  const Tensor gamma = g.param("g", {c.dtype, {c.width}}, {.init = ir::Init::ones});
  const Tensor beta = g.param("b", {c.dtype, {c.width}}, {.init = ir::Init::zeros});
  return layer_norm(x, gamma, beta);
}

// One layer for one token: x is [1, width]. Row `position` of the caches becomes this token's.
Tensor layer(Graph& g, Tensor x, Tensor position, Tensor seen, const Config& c) {
  const Tensor n = norm(g, "ln_1", x, c);
  const Tensor q = linear(g, "attn/q", n, c.width);
  const TypeArg cache{c.dtype, {c.context, c.width}};
  const Tensor keys = g.param("attn/keys", cache, {.init = ir::Init::zeros});
  const Tensor values = g.param("attn/values", cache, {.init = ir::Init::zeros});
  const Tensor first = g.full({i32, {}}, 0);
  g.update(keys, linear(g, "attn/k", n, c.width), {position, first});
  g.update(values, linear(g, "attn/v", n, c.width), {position, first});
  const Tensor a = attention(q, keys, values, {.heads = c.heads, .mask = seen});
  const Tensor r = x + linear(g, "attn/proj", a, c.width);
  const Tensor m = gelu_tanh(linear(g, "mlp/fc", norm(g, "ln_2", r, c), 4L * c.width));
  return r + linear(g, "mlp/proj", m, c.width);
}

void describe(Graph& g, const Config& c) {
  const Tensor position = g.scalar("position", i32);
  const Tensor token = g.param("token", {i32, {1}}, {.init = ir::Init::zeros});
  const Tensor words = g.param("wte", {c.dtype, {c.vocabulary, c.width}}, {.scale = 0.02});
  const Tensor places = g.param("wpe", {c.dtype, {c.context, c.width}}, {.scale = 0.02});
  const Tensor seen = less_equal(g.iota({i32, {c.context}}, 0), position);

  Tensor x = gather(words, token) + gather(places, reshape(position, {1}));
  for (int i = 0; i < c.layers; ++i) {
    const Scope scope = g.scope("h" + std::to_string(i));
    x = layer(g, x, position, seen, c);
  }
  g.repeat("h", c.layers);
  const Tensor head = g.param("lm_head", {c.dtype, {c.vocabulary, c.width}}, {.scale = 0.02});
  const Tensor logits = matmul(norm(g, "ln_f", x, c), head, {.tb = true, .out = f32});
  const Tensor next = argmax(logits);
  g.assign(token, next);
  g.output("token", next);
}

// The same steps by the interpreter, in double precision.
std::vector<int64_t> reference(const Graph& g, const Store& store, int64_t start, int steps) {
  ir::TensorMap params;
  for (const std::string& name : store.names()) params[name] = widen(store.get(name));
  params["token"].i = {start};
  std::vector<int64_t> tokens;
  for (int i = 0; i < steps; ++i) {
    const WideTensor position{{i32, {}}, {}, {i}};
    tokens.push_back(ir::interpret(g.ir(), {{"position", position}}, params).at("token").i[0]);
  }
  return tokens;
}

}  // namespace

int main(int argc, char** argv) try {
  Config c;
  std::string device_name = "auto";
  int steps = 32;
  bool check = false, timed = false;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 == argc) throw std::runtime_error("gpt2: " + flag + " needs a value");
      return argv[++i];
    };
    if (flag == "--help") {
      std::printf("%s", kUsage);
      return 0;
    }
    if (flag == "--small") {
      c = {2, 64, 4, 48, 503, c.dtype};
    } else if (flag == "--dtype") {
      const std::string name = value();
      const auto dtype = dtype_from_name(name);
      if (!dtype || !is_float(*dtype)) throw std::runtime_error("gpt2: no such dtype: " + name);
      c.dtype = *dtype;
    } else if (flag == "--device") {
      device_name = value();
    } else if (flag == "--steps") {
      const std::string text = value();
      char* end = nullptr;
      const long number = std::strtol(text.c_str(), &end, 10);
      if (*end != 0) throw std::runtime_error("gpt2: --steps takes a number, not " + text);
      steps = static_cast<int>(std::clamp(number, -1L, 100'000L));
    } else if (flag == "--check") {
      check = true;
    } else if (flag == "--time") {
      timed = true;
    } else {
      throw std::runtime_error("gpt2: unknown flag " + flag + "\n" + kUsage);
    }
  }
  if (steps < 1 || steps > c.context) {
    throw std::runtime_error("gpt2: --steps is 1 to " + std::to_string(c.context));
  }

  Graph g{"gpt2"};
  describe(g, c);
  const Device device = Device::open(device_name);
  Store store(device);
  Executable decode = build(g, store);
  size_t kernels = 0;
  for (const Body& body : decode.program().bodies) kernels += body.nodes.size();
  std::fprintf(stderr, "%s: %zu kernels in %zu graph(s)\n", device.name().c_str(), kernels,
               decode.program().bodies.size());

  const int64_t start = 11 % c.vocabulary;
  HostTensor first({i32, Shape{1}});
  first.set_int(0, start);
  store.set("token", first);
  const std::vector<int64_t> expected =
      check ? reference(g, store, start, steps) : std::vector<int64_t>{};

  decode.poison();
  int wrong = 0;
  for (int i = 0; i < steps; ++i) {
    decode.set("position", i);
    decode.launch().wait();
    const int64_t token = decode.read("token").int_at(0);
    std::printf("%lld%s", static_cast<long long>(token), i + 1 < steps ? " " : "\n");
    if (check && token != expected[static_cast<size_t>(i)]) ++wrong;
  }
  if (check) std::printf("%d of %d tokens differ from the reference\n", wrong, steps);

  if (timed && !device.simulated()) {
    using Clock = std::chrono::steady_clock;
    constexpr int kRounds = 20;
    const auto begin = Clock::now();
    Ticket last;
    for (int i = 0; i < kRounds * steps; ++i) {
      decode.set("position", i % steps);
      last = decode.launch();
    }
    last.wait();
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    std::printf("%.1f us a token\n", us / (kRounds * steps));
  }
  return wrong == 0 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
