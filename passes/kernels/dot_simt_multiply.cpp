// What a thread does with a chunk: packs from shared memory, and their products.
#include <fmt/format.h>

#include "passes/kernels/dot_simt.hpp"

namespace braid::kernels {
namespace {

/// How a thread reads an operand's four terms: packs along k, one for each element, or for each
/// term packs or single elements across.
enum class Reads { along_k, packs, elements };

Reads reads(const DotOperand& x, int64_t each) {
  if (x.k_fastest) return Reads::along_k;
  return each % kPack == 0 ? Reads::packs : Reads::elements;
}

struct Side {
  char name, index;             // of an element of the thread
  std::string_view lane, many;  // the thread's number along the axis, how many there are
  std::string_view count;       // elements of a thread
  Reads how;
};

Side side_of(const DotOperand& x, const SimtTile& t, char outer) {
  return outer == 'm' ? Side{'a', 'i', "y", "(BM / TM)", "TM", reads(x, t.tm)}
                      : Side{'b', 'j', "x", "(BN / TN)", "TN", reads(x, t.tn)};
}

/// Loads what one term needs, or with `along_k` four of them.
std::vector<std::string> load_lines(const Side& s, std::string_view type) {
  const std::string stride = s.name == 'a' ? "A_STRIDE" : "B_STRIDE";
  const std::string loop = fmt::format(
      "for (int {} = 0; {} < {}; ++{}) ", s.index, s.index,
      s.how == Reads::packs ? fmt::format("{} / 4", s.count) : std::string(s.count), s.index);
  const std::string place = fmt::format("{} + {} * {}", s.lane, s.index, s.many);
  switch (s.how) {
    case Reads::along_k:
      return {fmt::format("braid_pack<{}, 4> {}[{}];", type, s.name, s.count), "#pragma unroll",
              fmt::format("{}{}[{}] = braid_load_pack<4>(&{}_tile[({}) * {} + k], 0);", loop,
                          s.name, s.index, s.name, place, stride)};
    case Reads::packs:
      return {fmt::format("braid_pack<{}, 4> {}[{} / 4];", type, s.name, s.count), "#pragma unroll",
              fmt::format("{}{}[{}] = braid_load_pack<4>(&{}_tile[(k + q) * {}], {});", loop,
                          s.name, s.index, s.name, stride, place)};
    case Reads::elements:
      return {fmt::format("{} {}[{}];", type, s.name, s.count), "#pragma unroll",
              fmt::format("{}{}[{}] = {}_tile[(k + q) * {} + {}];", loop, s.name, s.index, s.name,
                          stride, place)};
  }
  return {};
}

std::string factor(const Side& s) {
  switch (s.how) {
    case Reads::along_k:
      return fmt::format("{}[{}].at[q]", s.name, s.index);
    case Reads::packs:
      return fmt::format("{}[{} / 4].at[{} % 4]", s.name, s.index, s.index);
    case Reads::elements:
      return fmt::format("{}[{}]", s.name, s.index);
  }
  return {};
}

}  // namespace

int64_t row_stride(const SimtProblem& p, const SimtTile& t, char outer) {
  // Half a warp reads at once, from eight banks of a pack each: rows by their distance, and of each
  // slice packs that follow one another along k, or rows that lie four apart.
  constexpr int64_t kHalf = 16, kBanks = 8;
  const DotOperand& x = outer == 'm' ? p.a : p.b;
  const int64_t length = x.k_fastest ? t.bk : outer == 'm' ? t.bm : t.bn;
  const int64_t slices = std::max<int64_t>(1, kHalf / t.lanes());
  int64_t packs = divide_up(length, kPack);
  if (x.k_fastest && slices > 1) {
    while (packs % kBanks != slices % kBanks) ++packs;
  } else {
    packs += packs % 2 == 0 ? 1 : 0;
  }
  return packs * kPack;
}

std::string element_place(const DotOperand& x, const SimtTile& t, char outer) {
  const Side s = side_of(x, t, outer);
  if (s.how != Reads::packs) return fmt::format("{} + {} * {}", s.lane, s.index, s.many);
  return fmt::format("({} + {} / 4 * {}) * 4 + {} % 4", s.lane, s.index, s.many, s.index);
}

std::vector<std::string> multiply_lines(const SimtProblem& p, const SimtTile& t,
                                        std::string_view type) {
  const Side a = side_of(p.a, t, 'm'), b = side_of(p.b, t, 'n');
  std::vector<std::string> lines{
      fmt::format("const auto multiply = [&](const {}* a_tile) {{", type),
      fmt::format("const {}* b_tile = a_tile + B_TILE;", type), "#pragma unroll",
      fmt::format("for (int step = 0; step < BK / {}; ++step) {{", kPack * t.team_slices()),
      t.team_slices() > 1
          ? fmt::format("const int k = (step * {} + slice) * {};", t.team_slices(), kPack)
          : fmt::format("const int k = step * {};", kPack)};
  const auto load = [&](bool along_k) {
    for (const Side& s : {a, b}) {
      if ((s.how == Reads::along_k) != along_k) continue;
      const std::vector<std::string> more = load_lines(s, type);
      lines.insert(lines.end(), more.begin(), more.end());
    }
  };
  load(true);
  lines.push_back("#pragma unroll");
  lines.push_back(fmt::format("for (int q = 0; q < {}; ++q) {{", kPack));
  load(false);
  lines.push_back("#pragma unroll");
  lines.push_back("for (int i = 0; i < TM; ++i) {");
  lines.push_back("#pragma unroll");
  lines.push_back(
      fmt::format("for (int j = 0; j < TN; ++j) sum[i][j] += {} * {};", factor(a), factor(b)));
  for (int i = 0; i < 3; ++i) lines.push_back("}");
  lines.push_back("};");
  return lines;
}

}  // namespace braid::kernels
