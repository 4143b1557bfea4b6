// Writes the value of any op of a body at any index as CUDA statements.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "passes/kernels/cuda_text.hpp"
#include "passes/kernels/index.hpp"

namespace braid::kernels {

/// Every value is computed once per index and scope and kept in a local constant; what does not
/// depend on a loop's variables moves in front of the loop. Reductions and dots are not computed
/// here: the family defines their results.
class ExprWriter {
 public:
  ExprWriter(const ir::Graph& body, const Signature& signature, IndexPool& pool);
  /// Writes nothing from here on and names nothing: values are empty texts. For callers that want
  /// to know what is asked for, or what is refused.
  void only_ask() { writes_ = false; }

  /// A name, a literal or a parenthesised expression for the element of `v` at `at`, of the
  /// dtype's register type. Throws Refusal where a value would be needed that nobody defined.
  std::string value(ir::ValueId v, const At& at);
  /// Asked where a value is about to be computed: its text, if somebody keeps it.
  using Kept = std::function<std::optional<std::string>(ir::ValueId v, const At& at)>;
  void set_kept(Kept kept) { kept_ = std::move(kept); }
  /// From here to the end of the scope, `text` is that element.
  void define(ir::ValueId v, const At& at, std::string text);

  void line(std::string text) {
    if (writes_) scope_->lines.push_back(std::move(text));
  }
  void lines(const std::vector<std::string>& texts);
  /// A line in front of the loop that is being written.
  void line_before_loop(std::string text);
  /// Of a writer that shares a pool with another: what all its names begin with.
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }
  /// Names are used once: the second "x" becomes "x_2".
  std::string fresh(const std::string& name);

  /// The statements up to close() belong to the body of a loop over these variables ...
  void open_loop(std::vector<Index> variables);
  /// ... or of an if.
  void open_branch();
  /// Gives the body's statements; the caller writes them with a head through block().
  std::vector<std::string> close();
  void block(const std::string& head, const std::vector<std::string>& body);
  /// The function's statements, once all scopes are closed.
  std::vector<std::string> finish();
  bool directly_in_loop() const { return scope_->is_loop; }

  /// Clamps a register value, which was computed at `at`, into [0, extent) and names it.
  Index clamped_index(const std::string& text, int64_t extent, const At& at);

  /// Names the memory element to read, in place of arg[linear].
  using Memory = std::function<std::string(size_t arg, Index linear)>;
  void set_memory(Memory memory) { memory_ = std::move(memory); }
  std::string element(size_t arg, Index linear) const;

  struct Load {
    size_t arg;
    Index linear;
  };
  const std::vector<Load>& loads() const { return loads_; }
  /// Where that element stands in memory, if nothing but views lies between an argument and `v`:
  /// for callers that move it in ways of their own. Counts as a load.
  std::optional<Load> in_memory(ir::ValueId v, const At& at);
  IndexPool& pool() { return pool_; }
  const ir::Graph& body() const { return body_; }
  const Signature& signature() const { return signature_; }

 private:
  struct Key {
    ir::ValueId value;
    At at;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  struct Scope {
    Scope* parent = nullptr;
    bool is_loop = false;
    std::vector<Index> variables;
    std::vector<std::string> lines;
    std::vector<Key> known;
  };

  std::string compute(ir::ValueId v, const At& at);
  std::string load(ir::ValueId v, const At& at);
  std::string map(const ir::Op& op, const At& at);
  std::string read(const ir::Op& op, const At& at);
  std::string concat(const ir::Op& op, const At& at);
  std::string gather(const ir::Op& op, const At& at);
  std::string scatter(const ir::Op& op, const At& at);
  std::string name_value(std::string_view what, ir::ValueId v, const std::string& text);
  bool moves_out(const At& at) const;

  const ir::Graph& body_;
  const Signature& signature_;
  IndexPool& pool_;
  std::vector<std::unique_ptr<Scope>> scopes_;
  Scope* scope_;
  std::unordered_map<Key, std::string, KeyHash> known_;
  std::set<std::string> names_;
  Memory memory_;
  Kept kept_;
  std::string prefix_;
  bool writes_ = true;
  std::vector<Load> loads_;
};

}  // namespace braid::kernels
