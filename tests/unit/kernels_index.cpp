#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <random>
#include <string>

#include "passes/kernels/index.hpp"

namespace braid::kernels {
namespace {

/// Evaluates the CUDA text of an index: + - * / % with C's precedence, names, LL literals, casts.
class Evaluator {
 public:
  Evaluator(const std::string& text, const std::map<std::string, int64_t>& values)
      : text_(text), values_(values) {}
  int64_t run() {
    const int64_t x = sum();
    REQUIRE(at_ == text_.size());
    return x;
  }

 private:
  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  int64_t sum() {
    int64_t x = product();
    for (char c = peek(); c == '+' || c == '-'; c = peek()) {
      ++at_;
      const int64_t y = product();
      x = c == '+' ? x + y : x - y;
    }
    return x;
  }
  int64_t product() {
    int64_t x = unary();
    for (char c = peek(); c == '*' || c == '/' || c == '%'; c = peek()) {
      ++at_;
      const int64_t y = unary();
      x = c == '*' ? x * y : c == '/' ? x / y : x % y;
    }
    return x;
  }
  int64_t unary() {
    if (peek() == '-') {
      ++at_;
      return -unary();
    }
    if (peek() == '(') {
      if (text_.compare(at_, 11, "(long long)") == 0) {
        at_ += 11;
        return unary();
      }
      ++at_;
      const int64_t x = sum();
      REQUIRE(peek() == ')');
      ++at_;
      return x;
    }
    std::string word;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_')) {
      word += text_[at_++];
    }
    REQUIRE(!word.empty());
    return std::isdigit(static_cast<unsigned char>(word[0])) != 0 ? std::stoll(word)
                                                                  : values_.at(word);
  }

  std::string text_;
  const std::map<std::string, int64_t>& values_;
  size_t at_ = 0;
};

struct View {
  ir::ViewAttr attr;
  TensorType operand, result;
};

using Random = std::mt19937;
int64_t pick(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

std::vector<int64_t> split(Random& random, int64_t numel) {
  std::vector<int64_t> extents;
  while (numel > 1 && extents.size() < 5) {
    std::vector<int64_t> factors;
    for (int64_t f = 1; f <= numel; ++f) {
      if (numel % f == 0) factors.push_back(f);
    }
    const int64_t f = factors[static_cast<size_t>(pick(random, 0, std::ssize(factors) - 1))];
    extents.push_back(f);
    numel /= f;
  }
  extents.push_back(numel);
  return extents;
}

/// A view of `operand` of any kind.
View random_view(Random& random, const TensorType& operand) {
  View v{{}, operand, operand};
  const int rank = operand.shape.rank();
  const auto axis = [](int i) { return static_cast<size_t>(i); };
  switch (pick(random, 0, 3)) {
    case 0:
      v.attr.kind = ir::ViewKind::reshape;
      v.result.shape = Shape::of(split(random, operand.shape.numel()));
      break;
    case 1:
      v.attr.kind = ir::ViewKind::transpose;
      for (int i = 0; i < rank; ++i) v.attr.a[axis(i)] = i;
      std::shuffle(v.attr.a.begin(), v.attr.a.begin() + rank, random);
      for (int i = 0; i < rank; ++i) {
        v.result.shape[i] = operand.shape[static_cast<int>(v.attr.a[axis(i)])];
      }
      break;
    case 2: {
      v.attr.kind = ir::ViewKind::broadcast;
      v.result.shape = {};
      const bool leading = rank < 6 && pick(random, 0, 1) == 1;
      if (leading) v.result.shape.push_back(3);
      for (int i = 0; i < rank; ++i) {
        v.attr.a[axis(i)] = i + (leading ? 1 : 0);
        v.result.shape.push_back(operand.shape[i].value() == 1 ? Dim(2) : operand.shape[i]);
      }
      break;
    }
    default:
      v.attr.kind = ir::ViewKind::slice;
      for (int i = 0; i < rank; ++i) {
        const int64_t extent = operand.shape[i].value();
        v.attr.a[axis(i)] = pick(random, 0, extent - 1);
        v.attr.b[axis(i)] = pick(random, 1, 3);
        const int64_t most = (extent - 1 - v.attr.a[axis(i)]) / v.attr.b[axis(i)] + 1;
        v.result.shape[i] = Dim(pick(random, std::max<int64_t>(1, most - 1), most));
      }
  }
  return v;
}

/// What the view means, element by element.
std::vector<int64_t> through(const View& v, const std::vector<int64_t>& at) {
  const std::vector<int64_t> from = v.operand.shape.extents(), to = v.result.shape.extents();
  std::vector<int64_t> out(from.size());
  switch (v.attr.kind) {
    case ir::ViewKind::reshape: {
      int64_t linear = 0;
      for (size_t i = 0; i < at.size(); ++i) linear = linear * to[i] + at[i];
      for (size_t i = from.size(); i-- > 0;) {
        out[i] = linear % from[i];
        linear /= from[i];
      }
      break;
    }
    case ir::ViewKind::transpose:
      for (size_t i = 0; i < at.size(); ++i) out[static_cast<size_t>(v.attr.a[i])] = at[i];
      break;
    case ir::ViewKind::broadcast:
      for (size_t i = 0; i < from.size(); ++i) {
        out[i] = from[i] == 1 ? 0 : at[static_cast<size_t>(v.attr.a[i])];
      }
      break;
    case ir::ViewKind::slice:
      for (size_t i = 0; i < from.size(); ++i) out[i] = v.attr.a[i] + v.attr.b[i] * at[i];
  }
  return out;
}

}  // namespace

TEST_CASE("index texts through chains of views address the right element") {
  Random random(7);
  for (int round = 0; round < 400; ++round) {
    TensorType type{DType::f32, Shape::of(split(random, 120))};
    const TensorType source = type;
    std::vector<View> chain;
    for (int64_t n = pick(random, 1, 5); n > 0; --n) {
      const View v = random_view(random, type);
      if (v.result.shape.rank() > 7 || v.result.shape.numel() > 5000) break;
      chain.push_back(v);
      type = v.result;
    }
    IndexPool pool;
    const int64_t numel = type.shape.numel();
    At at = delinearize(pool, pool.variable("i", numel), type.shape.extents());
    for (size_t k = chain.size(); k-- > 0;) {
      at = through_view(pool, chain[k].attr, chain[k].operand, chain[k].result, at);
    }
    const Index linear = linearize(pool, at, source.shape.extents());
    const std::string text = pool.text(linear);
    CAPTURE(text);
    CHECK(pool.min(linear) >= 0);
    for (int64_t i = 0; i < numel; ++i) {
      std::vector<int64_t> expected;
      int64_t rest = i;
      for (int a = type.shape.rank(); a-- > 0;) {
        expected.insert(expected.begin(), rest % type.shape[a].value());
        rest /= type.shape[a].value();
      }
      for (size_t k = chain.size(); k-- > 0;) expected = through(chain[k], expected);
      int64_t want = 0;
      for (size_t a = 0; a < expected.size(); ++a) {
        want = want * source.shape.extents()[a] + expected[a];
      }
      const int64_t got = Evaluator(text, {{"i", i}}).run();
      REQUIRE(got == want);
      REQUIRE(got <= pool.max(linear));
    }
  }
}

TEST_CASE("what equals is the same expression") {
  IndexPool pool;
  const Index i = pool.variable("i", 1000), j = pool.variable("j", 12);
  SUBCASE("reshapes back and forth cancel") {
    Random random(3);
    for (int round = 0; round < 200; ++round) {
      Index linear = pool.variable("n", 360);
      for (int k = 0; k < 3; ++k) {
        const std::vector<int64_t> extents = split(random, 360);
        linear = linearize(pool, delinearize(pool, linear, extents), extents);
      }
      CHECK(linear == pool.variable("n", 360));
    }
  }
  SUBCASE("a merged row and column splits again") {
    const Index linear = pool.add(pool.mul(i, 12), j);
    CHECK(pool.div(linear, 12) == i);
    CHECK(pool.mod(linear, 12) == j);
    CHECK(pool.div(linear, 4) == pool.add(pool.mul(i, 3), pool.div(j, 4)));
    CHECK(pool.mod(linear, 4) == pool.mod(j, 4));
    CHECK(pool.div(pool.div(linear, 2), 6) == i);
  }
  SUBCASE("nested divisions and remainders are one") {
    CHECK(pool.div(pool.div(i, 3), 5) == pool.div(i, 15));
    CHECK(pool.mod(pool.mod(i, 15), 5) == pool.mod(i, 5));
    CHECK(pool.div(pool.mod(i, 15), 5) == pool.mod(pool.div(i, 5), 3));
    CHECK(pool.mod(pool.add(pool.mod(i, 12), pool.constant(12)), 4) == pool.mod(i, 4));
  }
  SUBCASE("what lies below the divisor drops out") {
    const Index k = pool.variable("k", 4);
    CHECK(pool.div(pool.add(pool.mul(i, 8), k), 24) == pool.div(i, 3));
    CHECK(pool.mod(pool.add(pool.mul(i, 8), k), 24) == pool.add(pool.mul(pool.mod(i, 3), 8), k));
  }
  SUBCASE("different things stay different") {
    CHECK(pool.div(i, 3) != pool.div(i, 4));
    CHECK(pool.add(i, j) != pool.add(i, pool.constant(1)));
  }
}

TEST_CASE("queries on expressions") {
  IndexPool pool;
  const Index i = pool.variable("i", 10), j = pool.variable("j", 7);
  const Index e = pool.add(pool.add(pool.mul(i, 3), pool.div(j, 2)), pool.constant(-4));
  CHECK(pool.min(e) == -4);
  CHECK(pool.max(e) == 27 + 3 - 4);
  CHECK(pool.coefficient(e, i) == 3);
  CHECK(pool.coefficient(e, j) == 0);
  CHECK(pool.depends_on(e, j));
  CHECK_FALSE(pool.depends_on(e, pool.variable("k", 5)));
  CHECK(pool.variable("one", 1) == pool.constant(0));
  int64_t value = 0;
  CHECK(pool.is_constant(pool.constant(42), &value));
  CHECK(value == 42);
  CHECK_FALSE(pool.is_constant(e));
  CHECK(pool.text(e) == "i * 3 + j / 2 - 4");
}

TEST_CASE("arithmetic is 32 bits wide where the range allows") {
  IndexPool pool;
  const Index row = pool.variable("row", 70000), col = pool.variable("col", 70000);
  CHECK(pool.text(pool.add(pool.mul(row, 30000), col)) == "row * 30000 + col");
  CHECK(pool.text(pool.add(pool.mul(row, 70000), col)) == "row * 70000LL + col");
  const Index big = pool.variable("i", int64_t{1} << 40);
  CHECK(pool.text(pool.add(big, col)) == "(long long)col + i");
  CHECK(pool.text(pool.mod(big, 8)) == "(long long)i % 8");
}

}  // namespace braid::kernels
