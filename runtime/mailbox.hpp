// Inside the runtime: the mailbox of one executable, by which its graphs have the host run
// functions while they wait, and the thread that answers.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "ir/diagnostic.hpp"
#include "ir/host.hpp"
#include "ir/mailbox.hpp"
#include "ir/program.hpp"
#include "runtime/context.hpp"
#include "runtime/host_options.hpp"

namespace braid::runtime {

/// Owns the memory of both sides, the functions, and one thread that calls all of them, one at a
/// time. The thread watches memory without a pause while launches are under way and 100 us after,
/// then sleeps; it makes no driver calls: the device says through memory how many launches have
/// ended. As launches follow one another, whatever is asked is of the first that has not ended.
///
/// What a function throws fails the launch, whose other exchanges are answered without a call. If
/// one does not return in time, the kernel goes on, tells the header, and no kernel asks any more:
/// the launch and those behind it that are under way fail; the next launch is refused until the
/// function has returned, and clears the header.
///
/// Shared with tickets, which may outlive the executable, and with the thread, which does if a
/// function never returns: then it keeps the host's memory and the functions, and nothing else.
class Mailbox : public std::enable_shared_from_this<Mailbox> {
  struct Private {};

 public:
  /// One launch. Guarded by the mailbox.
  struct Launch {
    uint64_t number = 0;                // of the executable, from 0
    std::optional<Diagnostic> failure;  // the first
    size_t failures = 0;
  };
  using LaunchPtr = std::shared_ptr<Launch>;

  /// Throws Error E0806 for a function that is not there. The context must be current; the copies
  /// are made on `stream` and waited for.
  static std::shared_ptr<Mailbox> make(const ContextPtr& context, const Program& program,
                                       const HostFunctions& functions, const HostOptions& options,
                                       CUstream stream);
  Mailbox(Private, ContextPtr context, const Program& program, const HostFunctions& functions,
          const HostOptions& options, CUstream stream);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  /// What kernels get: the address of the header, behind which lie the slots.
  CUdeviceptr device() const { return device_.get(); }
  /// What the host node of an exchange gets. Valid as long as the mailbox.
  CUDA_HOST_NODE_PARAMS_v2 host_node(uint32_t exchange);

  /// To be called before anything of a launch is enqueued on `on`, in the order of launches. May
  /// wait at the context's gate.
  LaunchPtr begin(CUstream on);
  /// Enqueues what must stand before and behind a launch. `start` throws Error E0872 while a
  /// function has not returned that did not answer in time.
  void start(CUstream on);
  void end(const Launch& launch, CUstream on);
  /// Of a launch that was given up in between, all of whose work has ended.
  void abandon(const Launch& launch);
  /// To be called once the device has done all of a launch.
  void finish(const Launch& launch);
  /// Throws Error: the first thing that failed in a finished launch, or nothing.
  void rethrow(const Launch& launch) const;

  /// Waits until the launch that ends with `last` has ended, and those before it; but no longer
  /// than a second, nor than the deadline, for one function. Then kernels wait no more.
  void leave(CUevent last);
  /// Gives memory and functions back, once the device has done everything; if a function does not
  /// return in the time that leave gives, the thread does when it has. Nothing but finish and
  /// rethrow may follow.
  void close();
  /// When the process ends: kernels wait no more, and the thread ends unless it runs a function.
  void retire();

 private:
  using Clock = std::chrono::steady_clock;

  struct Site {
    Exchange exchange;
    std::shared_ptr<HostFunction> function;  // one for all exchanges with it: it may have a state
    std::vector<int64_t> offsets;            // see mailbox_offsets
    std::byte* data = nullptr;
    MailboxLine* line = nullptr;
    // Of the thread alone.
    std::vector<HostTensor> arguments, results;
    uint32_t served = 0;
    // Guarded by mutex_.
    uint32_t gave_up = 0;        // MailboxLine::given_up, as it was seen last
    uint32_t last_sequence = 0;  // what was asked last, and the launch that did
    LaunchPtr last_launch;
    Mailbox* mailbox = nullptr;  // of the host node
  };
  struct Calling {
    const Site* site = nullptr;
    uint64_t launch = 0;
    Clock::time_point since;
  };

  void find_functions(const Program& program, const HostFunctions& functions);
  void map_memory(const Program& program, CUstream stream);

  // The thread.
  void serve();
  void answer(Site& site, uint32_t sequence);
  /// Nothing if the function filled the results.
  std::optional<Diagnostic> call(Site& site) const;
  void pause(Clock::duration idle) const;
  /// In a thread of the driver's: until what the kernel before it asked is answered, if ever.
  static void CUDA_CB run_host_node(void* site);
  void wait(Site& site);

  // These expect mutex_ to be held.
  uint64_t ended() const;
  void fail(Launch& launch, Diagnostic d) const;
  /// Finds out whether a kernel gave up, and fails the launches.
  void scan();
  /// Forgets launches before this number.
  void settle(uint64_t number);
  void close_lines();

  ContextPtr context_;
  const HostOptions options_;
  OwnedMemory device_;
  OwnedHostMemory memory_;
  CUdeviceptr done_address_ = 0;
  std::vector<Site> sites_;  // by exchange
  Spins spins_;
  std::atomic<bool> closing_ = false;
  Clock::time_point leave_until_{};

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool closed_ = false;             // nobody may wait any more
  bool ended_ = false;              // the thread has
  uint64_t next_ = 0;               // number of the next launch
  std::deque<LaunchPtr> launches_;  // those that may be under way
  std::optional<Calling> calling_;
  const Site* dead_ = nullptr;  // whose function did not answer in time

  std::shared_ptr<Mailbox> self_;  // of a thread that was left behind
  std::thread thread_;
};

}  // namespace braid::runtime
