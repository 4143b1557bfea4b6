// How dumps and reports call the parts of a Program, and names with repeated scopes folded.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/program.hpp"

namespace braid {

/// "g0" for a graph and "s1" for kernels without one. The number is that of Program::bodies, so
/// that every dump says the same.
std::string name_of_body(const Program& p, size_t body);
/// "g0.n3".
std::string name_of_node(const Program& p, size_t body, size_t node);
/// "IF", "SWITCH" or "WHILE" for a conditional node, "predicated if", "while by the host".
std::string name_of_region(const Program& p, const Region& r);
/// "true" where a b1 decides, "2" where a number does.
std::string name_of_side(const Program& p, const Region& r, uint32_t side);
/// The exchange that a node of a kernel serves, or null.
const Exchange* exchange_of(const Program& p, const Node& node);
/// The scoped name in an op's label: "h" of "h (add)", "l1/dot" of "l1/dot".
std::string_view op_name(std::string_view label);
/// "1 kernel", "2 kernels".
std::string counted(size_t n, std::string_view what);
/// "512 B", "12.0 KiB", "3.5 MiB".
std::string human_bytes(int64_t bytes);
/// "1234 ", "12.3 k", "5.0 G", for a unit that follows.
std::string human_count(int64_t n);

/// Rows of cells, padded to columns and indented by two; the last column is left as it is.
class TextTable {
 public:
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string str() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// The repeats of a Program, for folding: names of ops as they stand in the copies of a block.
class Repeats {
 public:
  explicit Repeats(const std::vector<ir::Repeat>& repeats);

  struct Copy {
    std::string prefix;  // "block"
    int64_t copy = 0;    // 3 of "block3/mlp/w1"
    size_t end = 0;      // where "block3" ends in the name
    bool operator==(const Copy&) const = default;
  };
  /// The outermost copy that a name lies in.
  std::optional<Copy> outermost(std::string_view name) const;
  /// "block*/mlp/w1": stars for the copies at every depth.
  std::string folded(std::string_view name) const;
  /// Like folded(), but the outermost copy relative to `first`: "block*", "block*+1".
  std::string relative(std::string_view name, int64_t first) const;
  /// The scopes that these labels come from, in their order: "embed", "block0 .. block11 (12x)".
  std::vector<std::string> scopes(const std::vector<std::string_view>& labels) const;

 private:
  std::optional<Copy> copy_at(std::string_view name, size_t begin, size_t end) const;
  std::map<std::string, int64_t, std::less<>> count_of_;  // by prefix
};

}  // namespace braid
