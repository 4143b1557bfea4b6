// What fusion makes of random graphs: every group must be a kernel that its family can write, and
// that computes what the interpreter computes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>

#include "ir/text.hpp"
#include "kernels_kit.hpp"
#include "passes/fuse.hpp"
#include "passes/home.hpp"
#include "passes/kernels/family.hpp"
#include "passes/levels.hpp"

namespace braid::test {
namespace {

using V = Body::V;

class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : random_(seed) {
    tensors_ = {b_.in({6, 10}), b_.in({6, 10}), b_.in({10}), b_.in({6}), b_.in({10, 6})};
    states_ = {b_.param({6, 10}), b_.param({6})};
    for (int64_t n = pick(4, 14); n > 0; --n) step();
    for (int64_t n = pick(1, 3); n > 0; --n) b_.out(any());
    b_.out(tensors_.back());
  }
  ir::Graph take() { return std::move(b_.graph); }

 private:
  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  V any() { return tensors_[static_cast<size_t>(pick(0, std::ssize(tensors_) - 1))]; }
  bool is(V v, std::initializer_list<Dim> shape) { return b_.type(v).shape == Shape(shape); }

  /// Any tensor as one of [6, 10], through views alone where that is possible.
  V wide() {
    const V v = any();
    if (is(v, {6, 10})) return v;
    if (is(v, {10, 6})) {
      return pick(0, 1) == 0 ? b_.transpose(v, {1, 0}) : b_.reshape(v, {6, 10});
    }
    if (is(v, {10})) return b_.broadcast(v, {6, 10}, {1});
    return b_.broadcast(v, {6, 10}, {0});
  }

  void step() {
    switch (pick(0, 11)) {
      case 0:
      case 1:
        tensors_.push_back(b_.map(pick(0, 1) == 0 ? Fn::tanh : Fn::sigmoid, {any()}));
        break;
      case 2:
      case 3:
      case 4:
        tensors_.push_back(b_.map(pick(0, 1) == 0 ? Fn::add : Fn::sub, {wide(), wide()}));
        break;
      case 5:
        tensors_.push_back(b_.reduce(Fn::add, wide(), {static_cast<int>(pick(0, 1))}));
        break;
      case 6: {
        const V x = wide();
        const V m = b_.broadcast(b_.reduce(Fn::max, x, {1}), {6, 10}, {0});
        tensors_.push_back(b_.map(Fn::sigmoid, {b_.map(Fn::sub, {x, m})}));
        break;
      }
      case 7:
        tensors_.push_back(b_.map(Fn::neg, {b_.transpose(wide(), {1, 0})}));
        break;
      case 8: {
        const V d = b_.dot(wide(), wide(), false, true);
        const V e = b_.dot(b_.map(Fn::tanh, {d}), wide());
        tensors_.push_back(b_.map(Fn::tanh, {e}));
        break;
      }
      case 9: {
        const V left = b_.slice(wide(), {0, 1}, {1, 2}, {6, 4});
        const V right = b_.slice(wide(), {0, 2}, {1, 1}, {6, 6});
        tensors_.push_back(b_.concat({left, right}, 1));
        break;
      }
      case 10: {
        const V old = b_.read(states_[0]);
        tensors_.push_back(old);
        states_[0] = b_.assign(states_[0], b_.map(Fn::add, {old, wide()}));
        break;
      }
      default: {
        const V sum = b_.reduce(Fn::add, wide(), {1});
        states_[1] = b_.assign(states_[1], b_.map(Fn::sub, {sum, b_.read(states_[1])}));
        tensors_.push_back(b_.read(states_[1]));
      }
    }
  }

  Body b_;
  std::mt19937 random_;
  std::vector<V> tensors_, states_;
};

}  // namespace

TEST_CASE("every group that fusion makes of a random graph is a kernel that computes it") {
  std::vector<KernelCase> cases;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    ir::Graph graph = RandomGraph(seed).take();
    REQUIRE(ir::verify(graph).empty());
    const HomePlan homes = plan_homes(graph);
    const Fusion fusion = fuse(graph, homes, assign_levels(graph, homes), seed % 4 != 3);
    for (const Group& group : fusion.groups) {
      KernelCase c{fmt::format("fused_{}", cases.size()), std::string(name_of(group.family)),
                   extract_body(graph, group, nullptr)};
      INFO(seed, "\n", ir::print(c.body));
      const std::string refusal = kernels::family(c.family).refuses(c.body);
      CHECK(refusal == "");
      if (refusal.empty()) cases.push_back(std::move(c));
    }
  }
  CHECK(cases.size() > 60);
  check_numbers(cases);
}

}  // namespace braid::test
