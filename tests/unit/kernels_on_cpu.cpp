#include "kernels_on_cpu.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "kernels_cpu_shim.hpp"
#include "passes/kernels/cuda_text.hpp"
#include "passes/kernels/prelude.hpp"

namespace braid::test {
namespace {

struct Index {
  unsigned x, y, z;
};
struct Host {
  void (*block_barrier)();
  void (*warp_barrier)();
  float (*f16_to_f32)(uint16_t);
  uint16_t (*f32_to_f16)(float);
  uint16_t (*f32_to_bf16)(float);
  void (*others_end)();
};

/// What the kernels before this one are still about to write, until it waits for them.
std::function<void()> others_end;
void end_others() {
  if (others_end) std::exchange(others_end, nullptr)();
}

/// One block at a time: its threads as fibers that run from barrier to barrier.
class Block {
 public:
  using Call = void (*)(void**);

  Block(Call call, void** args, uint32_t threads, Index* thread_index)
      : call_(call), args_(args), fibers_(threads), thread_index_(thread_index) {
    for (Fiber& f : fibers_) f.stack = std::make_unique_for_overwrite<char[]>(kStack);
  }

  void run() {
    current_block = this;
    for (Fiber& f : fibers_) {
      f.state = State::ready;
      getcontext(&f.context);
      f.context.uc_stack = {f.stack.get(), 0, kStack};
      f.context.uc_link = &scheduler_;
      makecontext(&f.context, &Block::enter, 0);
    }
    bool forward = true;
    while (run_ready(forward)) {
      forward = !forward;  // what needs a barrier and has none shows in one of the two orders
      release();
    }
  }

  static void wait_block() { current_block->wait(State::at_block); }
  static void wait_warp() { current_block->wait(State::at_warp); }

 private:
  enum class State { ready, at_block, at_warp, done };
  struct Fiber {
    ucontext_t context{};
    std::unique_ptr<char[]> stack;
    State state = State::ready;
  };
  static constexpr size_t kStack = 64 * 1024;

  static void enter() {
    Block& b = *current_block;
    b.call_(b.args_);
    b.fibers_[b.running_].state = State::done;
  }

  void wait(State at) {
    Fiber& f = fibers_[running_];
    f.state = at;
    swapcontext(&f.context, &scheduler_);
  }

  /// False once every thread has ended.
  bool run_ready(bool forward) {
    bool alive = false;
    for (size_t n = 0; n < fibers_.size(); ++n) {
      const size_t i = forward ? n : fibers_.size() - 1 - n;
      if (fibers_[i].state == State::ready) {
        running_ = i;
        thread_index_->x = static_cast<unsigned>(i);
        swapcontext(&scheduler_, &fibers_[i].context);
      }
      alive |= fibers_[i].state != State::done;
    }
    return alive;
  }

  void release() {
    bool released = release_group(0, fibers_.size(), State::at_block);
    for (size_t w = 0; w < fibers_.size(); w += 32) {
      released |= release_group(w, std::min(w + 32, fibers_.size()), State::at_warp);
    }
    if (!released) throw std::runtime_error("threads of a block wait at different barriers");
  }
  bool release_group(size_t begin, size_t end, State at) {
    for (size_t i = begin; i < end; ++i) {
      if (fibers_[i].state != at) return false;
    }
    for (size_t i = begin; i < end; ++i) fibers_[i].state = State::ready;
    return true;
  }

  static Block* current_block;
  Call call_;
  void** args_;
  std::vector<Fiber> fibers_;
  Index* thread_index_;
  ucontext_t scheduler_{};
  size_t running_ = 0;
};
Block* Block::current_block = nullptr;

/// Bytes whose end lies against a page that traps.
class Guarded {
 public:
  explicit Guarded(const std::vector<std::byte>& bytes) : size_(bytes.size()) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t padded = (size_ + 15) / 16 * 16;
    mapped_ = (padded + page - 1) / page * page + page;
    base_ = static_cast<char*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED) throw std::runtime_error("no memory for a kernel argument");
    mprotect(base_ + mapped_ - page, page, PROT_NONE);
    data_ = base_ + mapped_ - page - padded;
    if (size_ != 0) std::memcpy(data_, bytes.data(), size_);
  }
  ~Guarded() { munmap(base_, mapped_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  void* data() const { return data_; }
  void fill(const std::vector<std::byte>& bytes) {
    if (size_ != 0) std::memcpy(data_, bytes.data(), size_);
  }
  void copy_to(std::vector<std::byte>& bytes) const {
    if (size_ != 0) std::memcpy(bytes.data(), data_, size_);
  }

 private:
  size_t size_, mapped_;
  char *base_, *data_;
};

std::string type_of(const kernels::Argument& a) {
  switch (a.sort) {
    case kernels::Argument::Sort::handle:
      return "unsigned long long";
    case kernels::Argument::Sort::ring:
      return "braid_ring*";
    case kernels::Argument::Sort::memory:
      break;
  }
  return std::string(kernels::storage_type(a.type.dtype)) + "*";
}

template <class T>
T* symbol(void* library, const std::string& name) {
  void* p = dlsym(library, name.c_str());
  if (!p) throw std::runtime_error("the compiled kernels lack " + name);
  return reinterpret_cast<T*>(p);
}

}  // namespace

OnCpu::OnCpu(const std::vector<KernelCase>& cases) {
  std::string source = std::string(cpu_shim()) + std::string(kernels::prelude_portable());
  for (const KernelCase& c : cases) {
    const kernels::Emitted e = c.emit();
    launches_[c.name] = e.launch;
    if (e.text.find("__cluster_dims__") != std::string::npos) of_clusters_.insert(c.name);
    const kernels::Signature signature(c.body);
    const size_t slots = signature.args.size();
    std::string args;
    for (size_t i = 0; i < slots * c.parts; ++i) {
      args += fmt::format("{}({})p[{}]", i ? ", " : "", type_of(signature.args[i % slots]), i);
    }
    if (c.guard) {
      args += fmt::format(", ({}*)p[{}]", kernels::storage_type(c.guard->dtype), slots);
    }
    if (c.exchanges) {
      args += fmt::format("{}(braid_mailbox_slot*)p[{}], (braid_mailbox*)p[{}]",
                          args.empty() ? "" : ", ", slots, slots + 1);
    }
    source += e.text + fmt::format("extern \"C\" void call_{}(void** p) {{ {}({}); }}\n", c.name,
                                   c.name, args);
  }
  std::string folder = (std::filesystem::temp_directory_path() / "braid-kernels-XXXXXX").string();
  if (!mkdtemp(folder.data())) throw std::runtime_error("no temporary folder");
  std::ofstream(folder + "/kernels.cpp") << source;
  const char* compiler = std::getenv("CXX");
  const std::string command =
      fmt::format("{} -std=c++17 -O1 -w -fPIC -shared -o {}/kernels.so {}/kernels.cpp 2> {}/log",
                  compiler && *compiler ? compiler : "c++", folder, folder, folder);
  const int status = std::system(command.c_str());
  std::stringstream log;
  log << std::ifstream(folder + "/log").rdbuf();
  if (status == 0) library_ = dlopen((folder + "/kernels.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  std::filesystem::remove_all(folder);
  if (!library_) throw std::runtime_error("the kernels do not compile as C++:\n" + log.str());
  *symbol<Host>(library_, "braid_host") = {&Block::wait_block, &Block::wait_warp, &f16_to_f32,
                                           &f32_to_f16,        &f32_to_bf16,      &end_others};
}

unsigned OnCpu::take_sets() const {
  return std::exchange(*symbol<unsigned>(library_, "braid_sets"), 0u);
}

OnCpu::~OnCpu() { dlclose(library_); }

void OnCpu::run(const KernelCase& c, std::vector<HostTensor>& args,
                const std::vector<InPlace>& in_place) const {
  std::vector<std::shared_ptr<Guarded>> memory;
  std::vector<void*> pointers;
  const kernels::Use use = c.use();
  const size_t slots = args.size() / c.parts;
  std::vector<size_t> late;  // not there before the kernel has waited: all that is not fixed
  for (size_t i = 0; i < args.size(); ++i) {
    const size_t slot = i % slots;
    const bool fixed = slot < use.fixed.size() && use.fixed[slot];
    if (use.waits && !fixed) late.push_back(i);
    const std::vector<std::byte> poison(args[i].bytes.size(), std::byte{0xff});
    memory.push_back(std::make_shared<Guarded>(use.waits && !fixed ? poison : args[i].bytes));
    pointers.push_back(memory.back()->data());
  }
  for (const InPlace& i : in_place) {
    memory[i.out] = memory[i.in];
    pointers[i.out] = pointers[i.in];
  }
  const auto write_others = [&] {
    for (size_t i : late) {
      const bool shares = std::any_of(in_place.begin(), in_place.end(),
                                      [&](const InPlace& pair) { return pair.out == i; });
      if (!shares) memory[i]->fill(args[i].bytes);
    }
  };
  const LaunchShape& launch = launches_.at(c.name);
  auto* const call = symbol<void(void**)>(library_, "call_" + c.name);
  auto* const block_index = symbol<Index>(library_, "blockIdx");
  Block block(call, pointers.data(), launch.block[0], symbol<Index>(library_, "threadIdx"));
  auto* const begin_block = symbol<void()>(library_, "braid_begin_block");
  symbol<void()>(library_, "braid_begin_launch")();
  for (int runs = of_clusters_.contains(c.name) ? 2 : 1; runs > 0; --runs) {
    others_end = write_others;
    for (uint32_t b = 0; b < launch.grid[0] * launch.grid[1]; ++b) {
      block_index->x = b % launch.grid[0];
      block_index->y = b / launch.grid[0];
      begin_block();
      block.run();
    }
  }
  for (size_t i = 0; i < args.size(); ++i) memory[i]->copy_to(args[i].bytes);
}

}  // namespace braid::test
