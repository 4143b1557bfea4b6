// What a warp does with a chunk: fragments from shared memory, and their products.
#include <fmt/format.h>

#include "passes/kernels/dot_mma.hpp"

namespace braid::kernels {
namespace {

struct Step {
  const MmaProblem& problem;
  const MmaTile& tile;
};
struct Side {
  char name;
  DotOperand how;
};

/// The element at (`outer`, `k`) of an operand's tile.
std::string at(const Side& s, const std::string& outer, const std::string& k) {
  const std::string& row = s.how.k_fastest ? outer : k;
  const std::string& column = s.how.k_fastest ? k : outer;
  return fmt::format("{}_tile[({}) * {}_STRIDE + {}]", s.name, row, s.name == 'a' ? 'A' : 'B',
                     column);
}

/// 16 rows: registers hold k from 0 and rows from 0, then rows from 8; then k from half on.
std::vector<std::string> row_fragment(const Step& x, const Side& s) {
  if (x.problem.product.tf32 && !s.how.k_fastest) {
    std::vector<std::string> lines;
    for (int r = 0; r < 4; ++r) {
      lines.push_back(
          fmt::format("rows[i][{}] = (unsigned)__float_as_int({});", r,
                      at(s, fmt::format("row + i * 16 + lane / 4{}", r % 2 ? " + 8" : ""),
                         fmt::format("k + lane % 4{}", r / 2 ? " + 4" : ""))));
    }
    return lines;
  }
  const std::string where =
      s.how.k_fastest
          ? at(s, "row + i * 16 + lane % 16", fmt::format("k + lane / 16 * {}", x.problem.vector()))
          : at(s, "row + i * 16 + lane / 8 % 2 * 8", "k + lane % 8 + lane / 16 * 8");
  return {fmt::format("braid_ldmatrix<{}>(rows[i][0], rows[i][1], rows[i][2], rows[i][3], &{});",
                      s.how.k_fastest ? "false" : "true", where)};
}

/// 8 columns, or 16: registers hold k from 0, then from half on.
std::vector<std::string> column_fragments(const Step& x, const Side& s) {
  const bool pairs = x.tile.warp_columns % 16 == 0;
  if (x.problem.product.tf32 && !s.how.k_fastest) {
    std::vector<std::string> lines{"for (int j = 0; j < COLUMNS / 8; ++j) {"};
    for (int r = 0; r < 2; ++r) {
      lines.push_back(fmt::format(
          "columns[j][{}] = (unsigned)__float_as_int({});", r,
          at(s, "column + j * 8 + lane / 4", fmt::format("k + lane % 4{}", r ? " + 4" : ""))));
    }
    lines.push_back("}");
    return lines;
  }
  // Of each pair of 8 columns lanes 16 to 31 name the second one's rows.
  const std::string second = pairs ? " + lane / 16 * 8" : "";
  const std::string where = s.how.k_fastest
                                ? at(s, "column + j * 8 + lane % 8" + second,
                                     fmt::format("k + lane / 8 % 2 * {}", x.problem.vector()))
                                : at(s, "column + j * 8" + second, "k + lane % 16");
  const std::string more = pairs ? "columns[j + 1][0], columns[j + 1][1], " : "";
  return {fmt::format("for (int j = 0; j < COLUMNS / 8; j += {}) {{", pairs ? 2 : 1),
          fmt::format("braid_ldmatrix<{}>(columns[j][0], columns[j][1], {}&{});",
                      s.how.k_fastest ? "false" : "true", more, where),
          "}"};
}

}  // namespace

std::vector<std::string> place_lines(const MmaTile& t) {
  const auto part = [](std::string_view name, int64_t below, int64_t count, std::string_view each) {
    return count == 1 ? fmt::format("constexpr int {} = 0;", name)
                      : fmt::format("const int {} = warp / {} % {}{};", name, below, count, each);
  };
  return {part("row", 1, t.row_warps(), " * ROWS"),
          part("column", t.row_warps(), t.column_warps(), " * COLUMNS"),
          part("slice", t.row_warps() * t.column_warps(), t.slices, "")};
}

std::vector<std::string> sum_lines(const std::string& to) {
  return {"#pragma unroll",
          "for (int i = 0; i < ROWS / 16; ++i) {",
          "#pragma unroll",
          "for (int j = 0; j < COLUMNS / 8; ++j) {",
          "#pragma unroll",
          "for (int e = 0; e < 4; ++e) {",
          "const int of_row = row + i * 16 + lane / 4 + e / 2 * 8;",
          "const int of_column = column + j * 8 + lane % 4 * 2 + e % 2;",
          to + " = sum[i][j][e];",
          "}",
          "}",
          "}"};
}

std::vector<std::string> multiply_lines(const MmaProblem& p, const MmaTile& t) {
  const Step x{p, t};
  const Side a{'a', p.a}, b{'b', p.b};
  const Side& rows = t.swapped ? b : a;
  const Side& columns = t.swapped ? a : b;
  std::vector<std::string> lines;
  const auto append = [&](const std::vector<std::string>& more) {
    lines.insert(lines.end(), more.begin(), more.end());
  };
  lines.push_back(fmt::format("const auto multiply = [&](const {}* a_tile) {{", p.element()));
  lines.push_back(fmt::format("const {}* b_tile = a_tile + B_TILE;", p.element()));
  lines.push_back("#pragma unroll");
  lines.push_back(fmt::format("for (int step = 0; step < BK / {} / SLICES; ++step) {{", p.depth()));
  lines.push_back(fmt::format("const int k = (step * SLICES + slice) * {};", p.depth()));
  lines.push_back("unsigned rows[ROWS / 16][4], columns[COLUMNS / 8][2];");
  lines.push_back("#pragma unroll");
  lines.push_back("for (int i = 0; i < ROWS / 16; ++i) {");
  append(row_fragment(x, rows));
  if (p.product.tf32) {
    lines.push_back("#pragma unroll");
    lines.push_back("for (int r = 0; r < 4; ++r) rows[i][r] = braid_tf32(rows[i][r]);");
  }
  lines.push_back("}");
  lines.push_back("#pragma unroll");
  append(column_fragments(x, columns));
  if (p.product.tf32) {
    lines.push_back("#pragma unroll");
    lines.push_back("for (int j = 0; j < COLUMNS / 8; ++j) {");
    lines.push_back("columns[j][0] = braid_tf32(columns[j][0]);");
    lines.push_back("columns[j][1] = braid_tf32(columns[j][1]);");
    lines.push_back("}");
  }
  lines.push_back("#pragma unroll");
  lines.push_back("for (int i = 0; i < ROWS / 16; ++i) {");
  lines.push_back("#pragma unroll");
  lines.push_back(
      fmt::format("for (int j = 0; j < COLUMNS / 8; ++j) "
                  "braid_mma_{}(sum[i][j], rows[i], columns[j]);",
                  p.product.tf32 ? "tf32" : name_of(p.product.operands)));
  lines.push_back("}");
  lines.push_back("}");
  lines.push_back("};");
  return lines;
}

}  // namespace braid::kernels
