// The memory of a mailbox, and its launches: how they begin, end and fail.
#include "runtime/mailbox.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string_view>

#include "ir/host_lookup.hpp"
#include "runtime/user_code.hpp"

namespace braid::runtime {
namespace {

/// How long a function may run on when its executable goes away.
std::chrono::nanoseconds most_to_leave(const HostOptions& options) {
  constexpr std::chrono::nanoseconds kMost = std::chrono::seconds(1);
  return options.deadline.count() > 0 ? std::min(options.deadline, kMost) : kMost;
}

std::string time_text(std::chrono::nanoseconds t) {
  const double ms = std::chrono::duration<double, std::milli>(t).count();
  return ms < 1000 ? fmt::format("{:.3g} ms", ms) : fmt::format("{:.3g} s", ms / 1000);
}

/// All mailboxes, so that none keeps the end of the process waiting. Lives for ever.
struct Registry {
  std::mutex mutex;
  std::set<Mailbox*> all;

  static Registry& get() {
    static Registry* const registry = [] {
      auto* made = new Registry;
      std::atexit([] {
        const std::lock_guard lock(get().mutex);
        for (Mailbox* m : get().all) m->retire();
      });
      return made;
    }();
    return *registry;
  }
};

}  // namespace

std::shared_ptr<Mailbox> Mailbox::make(const ContextPtr& context, const Program& program,
                                       const HostFunctions& functions, const HostOptions& options,
                                       CUstream stream) {
  auto made = std::make_shared<Mailbox>(Private{}, context, program, functions, options, stream);
  made->thread_ = std::thread([mailbox = made.get()] { mailbox->serve(); });
  {
    Registry& registry = Registry::get();
    const std::lock_guard lock(registry.mutex);
    registry.all.insert(made.get());
  }
  context->gate.add(made->spins_);
  return made;
}

Mailbox::Mailbox(Private, ContextPtr context, const Program& program,
                 const HostFunctions& functions, const HostOptions& options, CUstream stream)
    : context_(std::move(context)), options_(options), sites_(program.exchanges.size()) {
  find_functions(program, functions);
  map_memory(program, stream);
}

Mailbox::~Mailbox() { close(); }

void Mailbox::find_functions(const Program& program, const HostFunctions& functions) {
  std::map<std::string_view, std::shared_ptr<HostFunction>> own;
  for (size_t i = 0; i < sites_.size(); ++i) {
    Site& site = sites_[i];
    site.mailbox = this;
    site.exchange = program.exchanges[i];
    const Exchange& e = site.exchange;
    const HostFunction& given =
        find_host_function(functions, e.function, {}, caller_text(e.op, e.place));
    std::shared_ptr<HostFunction>& function = own[e.function];
    if (!function) function = std::make_shared<HostFunction>(given);
    site.function = function;
    site.offsets = mailbox_offsets(e.arguments, e.results);
    for (const TensorType& t : e.arguments) site.arguments.emplace_back(t);
    for (const TensorType& t : e.results) site.results.emplace_back(t);
  }
}

void Mailbox::map_memory(const Program& program, CUstream stream) {
  Driver& driver = *context_->driver;
  constexpr size_t kAlignment = 256;
  const auto aligned = [](size_t x) { return (x + kAlignment - 1) / kAlignment * kAlignment; };
  // First how many launches have ended, then the lines, then arguments and results.
  const size_t lines = sizeof(MailboxLine);
  const size_t data = aligned(lines + sites_.size() * sizeof(MailboxLine));
  size_t bytes = data;
  for (const Site& s : sites_) bytes += static_cast<size_t>(s.offsets.back());
  const std::string what = fmt::format("{} bytes for the host calls of {}", bytes, program.name);
  void* memory = nullptr;
  context_->check(driver.cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_DEVICEMAP),
                  "cuMemHostAlloc", what);
  memory_ = OwnedHostMemory(context_, memory);
  std::memset(memory, 0, bytes);
  CUdeviceptr address = 0;
  context_->check(driver.cuMemHostGetDevicePointer(&address, memory, 0),
                  "cuMemHostGetDevicePointer", what);
  auto* const host = static_cast<std::byte*>(memory);
  spins_.done = reinterpret_cast<uint32_t*>(host);
  done_address_ = address;

  MailboxHeader header;
  header.deadline_ns = static_cast<uint64_t>(std::max<int64_t>(options_.deadline.count(), 0));
  std::vector<std::byte> content(static_cast<size_t>(mailbox_slot_offset(sites_.size())));
  std::memcpy(content.data(), &header, sizeof header);
  size_t at = data;
  for (size_t i = 0; i < sites_.size(); ++i) {
    const size_t line = lines + i * sizeof(MailboxLine);
    sites_[i].line = reinterpret_cast<MailboxLine*>(host + line);
    sites_[i].data = host + at;
    MailboxSlot slot;
    slot.host = address + line;
    slot.data = address + at;
    std::memcpy(content.data() + mailbox_slot_offset(i), &slot, sizeof slot);
    at += static_cast<size_t>(sites_[i].offsets.back());
  }
  device_ = allocate(context_, static_cast<int64_t>(content.size()), "mailbox of " + program.name);
  context_->check(driver.cuMemcpyHtoDAsync(device_.get(), content.data(), content.size(), stream),
                  "cuMemcpyHtoDAsync", what);
  context_->check(driver.cuStreamSynchronize(stream), "cuStreamSynchronize", what);
}

CUDA_HOST_NODE_PARAMS_v2 Mailbox::host_node(uint32_t exchange) {
  return {run_host_node, &sites_[exchange]};
}

Mailbox::LaunchPtr Mailbox::begin(CUstream on) {
  auto launch = std::make_shared<Launch>();
  context_->gate.enter(spins_, *context_->driver, [&] { context_->look(on); });
  const std::lock_guard lock(mutex_);
  settle(ended());
  launch->number = next_++;
  launches_.push_back(launch);
  wake_.notify_all();
  return launch;
}

void Mailbox::start(CUstream on) {
  {
    const std::lock_guard lock(mutex_);
    scan();
    if (!dead_) return;
    if (calling_) {
      throw_error("E0872",
                  fmt::format("{} has not returned: it runs for launch {}, which it did not answer "
                              "in time",
                              text_of(calling_->site->exchange), calling_->launch),
                  "launch again when it has returned; a host function may not call CUDA, nor wait "
                  "for a launch or for a thread that does");
    }
  }
  context_->check(context_->driver->cuStreamWriteValue32(
                      on, device_.get() + offsetof(MailboxHeader, dead), 0, 0),
                  "cuStreamWriteValue32", "mailbox");
  const std::lock_guard lock(mutex_);
  dead_ = nullptr;
}

void Mailbox::end(const Launch& launch, CUstream on) {
  context_->check(context_->driver->cuStreamWriteValue32(
                      on, done_address_, static_cast<uint32_t>(launch.number + 1), 0),
                  "cuStreamWriteValue32", "end of a launch");
}

void Mailbox::abandon(const Launch& launch) {
  const std::lock_guard lock(mutex_);
  store_word(*spins_.done, static_cast<uint32_t>(launch.number + 1));
  settle(launch.number + 1);
}

void Mailbox::finish(const Launch& launch) {
  const std::lock_guard lock(mutex_);
  settle(launch.number + 1);
}

void Mailbox::rethrow(const Launch& launch) const {
  const std::lock_guard lock(mutex_);
  if (!launch.failure) return;
  Diagnostic d = *launch.failure;
  if (launch.failures > 1) {
    d.details.push_back(fmt::format("{} more failed in this launch", launch.failures - 1));
  }
  throw Error(std::move(d));
}

uint64_t Mailbox::ended() const {
  return next_ - static_cast<uint32_t>(static_cast<uint32_t>(next_) - load_word(*spins_.done));
}

void Mailbox::fail(Launch& launch, Diagnostic d) const {
  if (launch.failures++ == 0) launch.failure = std::move(d);
}

void Mailbox::scan() {
  if (closed_) return;
  for (Site& site : sites_) {
    const uint32_t given_up = load_word(site.line->given_up);
    if (given_up == site.gave_up) continue;
    site.gave_up = given_up;
    if (dead_) continue;
    dead_ = &site;
    // What the thread has not seen yet was asked by one of those that may be under way.
    uint64_t first = launches_.empty() ? next_ : launches_.front()->number;
    if (site.last_launch && site.last_sequence == given_up) first = site.last_launch->number;
    for (const LaunchPtr& launch : launches_) {
      if (launch->number < first) continue;
      Diagnostic d;
      d.code = "E0871";
      d.message = fmt::format("{} did not answer launch {} within {}", text_of(site.exchange),
                              first, time_text(options_.deadline));
      if (launch->number > first) {
        d.message += fmt::format("; launch {}, already under way, ran without host functions",
                                 launch->number);
      }
      d.suggestion =
          "a host function may not call CUDA, nor wait for a launch or for a thread that does; "
          "one that only takes long needs a longer HostOptions::deadline";
      fail(*launch, std::move(d));
    }
  }
}

void Mailbox::settle(uint64_t number) {
  scan();
  while (!launches_.empty() && launches_.front()->number < number) launches_.pop_front();
}

void Mailbox::close_lines() {
  closing_ = true;
  wake_.notify_all();
  if (closed_) return;
  closed_ = true;
  for (Site& site : sites_) store_word(site.line->answered, kMailboxClosed);
}

void Mailbox::leave(CUevent last) {
  const Clock::time_point began = Clock::now();
  leave_until_ = began + most_to_leave(options_);
  while (context_->driver->cuEventQuery(last) == CUDA_ERROR_NOT_READY) {
    {
      const std::lock_guard lock(mutex_);
      // Launches may take as long as they like, one call may not.
      if (calling_) leave_until_ = std::max(began, calling_->since) + most_to_leave(options_);
      if (calling_ && Clock::now() > leave_until_) break;
    }
    pause(Clock::now() - began);
  }
  const std::lock_guard lock(mutex_);
  scan();
  close_lines();
}

void Mailbox::retire() {
  std::unique_lock lock(mutex_);
  if (ended_) return;
  close_lines();
  while (!ended_ && !calling_) {
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
}

void Mailbox::close() {
  {
    Registry& registry = Registry::get();
    const std::lock_guard lock(registry.mutex);
    registry.all.erase(this);
  }
  context_->gate.remove(spins_);
  device_ = {};  // not under the lock, which what runs inside the driver takes
  std::unique_lock lock(mutex_);
  if (!memory_) return;
  close_lines();
  launches_.clear();
  if (leave_until_ == Clock::time_point{}) leave_until_ = Clock::now() + most_to_leave(options_);
  while (!ended_) {
    if (calling_ && Clock::now() > leave_until_) {
      self_ = shared_from_this();
      thread_.detach();
      return;
    }
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    lock.lock();
  }
  lock.unlock();
  if (thread_.joinable()) thread_.join();
  sites_.clear();
  memory_ = {};
}

}  // namespace braid::runtime
