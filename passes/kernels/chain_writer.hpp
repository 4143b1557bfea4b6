// The text of a chain kernel: all that does not depend on what is computed is on its way first,
// then the stages follow one another.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "passes/kernels/chain_plan.hpp"

namespace braid::kernels {

/// The plan of a product that stands alone, if it has few rows and its other operand can go to
/// registers: what the dot family takes where it costs less.
std::unique_ptr<ChainPlan> streamed_product(const ir::Graph& body, const Signature& signature,
                                            const std::vector<Sink>& sinks, const Target& target);

class ChainWriter {
 public:
  ChainWriter(const ir::Graph& body, const Signature& signature, ChainPlan& plan);
  Emitted emit(std::string_view symbol);

 private:
  using Lines = std::vector<std::string>;

  // chain_writer.cpp: the frame.
  std::optional<std::string> kept(ir::ValueId v, const At& at);
  void meet(ir::ValueId v, const At& at);
  void write_places();
  void write_copies(bool fixed);
  void write_copy(const ChainStage& s, const ChainOperand& x);
  void prepare_results();
  void write_results();
  void write_shares();
  void write_extras();
  std::string first_columns() const;
  std::string tile_name(const ChainStage& s, const ChainOperand& x) const;
  DType dtype_of(const ChainOperand& x) const { return body_.type(x.value).dtype; }

  // chain_rows.cpp: runs of reductions and computed operands.
  void write_run(size_t first, size_t end);
  void write_turn(size_t first, size_t end);
  void write_pass(const ChainStage& s);
  void write_walk(const ChainStage& s, const Lines& body);
  std::string remember(size_t arg, Index linear);
  std::string row() const { return plan_.name("row", *run_); }
  std::string column() const { return plan_.name("col", *run_); }

  // chain_dot.cpp: products.
  void write_dot(const ChainStage& s);
  void write_arrival(const ChainStage& s);
  void write_operand(const ChainStage& s, const ChainOperand& x);
  void write_stream(const ChainStage& s);
  void write_streamed(const ChainStage& s);
  void write_mma(const ChainStage& s);
  void write_simt(const ChainStage& s);
  void write_simt_along_k(const ChainStage& s);
  void write_fold(const ChainStage& s);
  std::string in_tile(const ChainStage& s, const ChainOperand& x, std::string_view outer,
                      std::string_view k) const;

  const ir::Graph& body_;
  const Signature& signature_;
  ChainPlan& plan_;
  IndexPool& pool_;
  ExprWriter writer_;
  std::vector<const ChainOperand*> copies_;  // in the order of their groups
  size_t arrived_ = 0;                       // of them, for all threads
  Lines results_;

  // The run that is being written.
  const ChainStage* run_ = nullptr;  // its first stage
  size_t run_end_ = 0;
  std::map<std::pair<size_t, Index>, std::string> remembered_;
  const ChainStage* walked_ = nullptr;  // whose computed operand is being written
  std::vector<PlacedSink> met_;         // earlier results on the way of it
  std::vector<bool> stored_;            // by extra
  Lines loads_[2];                      // of what runs remember: what is fixed, and the rest
};

}  // namespace braid::kernels
