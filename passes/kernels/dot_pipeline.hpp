// How the operands of a product come to shared memory: in chunks along k, several of them on their
// way while one is multiplied.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "passes/kernels/dot_frame.hpp"

namespace braid::kernels {

/// How an operand comes to shared memory.
struct DotOperand {
  bool k_fastest = true;  // rows of the tile run along k, else along m or n
  bool async = false;     // by asynchronous copies, else element by element through registers
  int64_t vector = 1;     // elements of a copy
};

/// A kernel that multiplies chunk by chunk. Who derives from it sets `a_`, `b_` and the chunks, and
/// writes `multiply`, a function of the first element of a stage, where a_'s part begins; b_'s
/// stands at B_TILE, with rows A_STRIDE and B_STRIDE apart, the next stage at STAGE.
class DotPipeline : public DotFrame {
 public:
  using DotFrame::DotFrame;

 protected:
  /// One operand: where it comes from and how it lies in shared memory.
  struct Side {
    char outer;
    DotOperand how;
    ExprWriter::Load copied{};        // if async: the first element of a copy
    std::vector<std::string> before;  // else: what does not depend on m, n and k ...
    std::vector<std::string> lines;   // ... and what ends by setting NAME_next[i]
    bool early = false;               // may be on its way before the kernel waits
    int64_t extent = 0;               // of the tile beside k
    int64_t stride = 0;               // between its rows in shared memory
    char name() const { return name_of_side(outer); }
  };
  using Converted = std::function<std::string(const std::string& x)>;
  /// `vectors`: the copies that would do, the best first. Of what is not copied `converted` makes
  /// an element of shared memory.
  Side side_of(char outer, std::initializer_list<int64_t> vectors, const Converted& converted);

  /// What is fetched by whom. `memory` is in the text where their first stage begins.
  struct Chunks {
    std::string_view type;  // of an element in shared memory
    int64_t bk = 0;
    int64_t count = 0;
    int64_t stages = 1;                          // that shared memory holds
    int64_t whole_k = 1;                         // where this divides K, every chunk is whole
    std::string_view first = "", stride = "BK";  // a chunk begins at FIRST + its number * STRIDE
    int64_t threads = 0;                         // that fetch and multiply it, and
    std::string_view thread = "thread", step = "THREADS";  // their numbers, how many there are
    std::string_view meet = "__syncthreads();";
  };
  void set_chunks(Chunks chunks);

  /// Defines how to fetch, begins with what is fixed, and waits for other kernels.
  void write_fetches();
  void write_first_chunks();
  void write_main_loop();

  Side a_{'m', {}, {}, {}, {}}, b_{'n', {}, {}, {}, {}};
  Chunks chunks_;
  int64_t ahead_ = 0;  // chunks on their way before the first is multiplied

 private:
  std::optional<ExprWriter::Load> packs(char outer, bool along_k, int64_t vector);
  void set_element(Side& side, const Converted& converted);
  std::string within_chunk(char axis, int64_t block) const;
  std::vector<std::string> copies(const Side& side) const;
  struct Fetch;
  Fetch fetch(const Side& side) const;
  std::vector<std::string> put(const Side& side, const Fetch& f) const;
  void write_lambda(const std::string& name, std::string_view arguments,
                    const std::vector<std::string>& lines);
  /// "fetch_a(...), fetch_b(...);" for the operands that are `meant`.
  void write_calls(std::string_view what, const std::string& arguments,
                   const std::function<bool(const Side&)>& meant, const std::string& test = "");
  void define_fetch(const Side& side);
  std::string place(const std::string& chunk) const;
  bool has_copies() const { return a_.how.async || b_.how.async; }
};

}  // namespace braid::kernels
