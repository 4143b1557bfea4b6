// The thread of a mailbox, which calls the host functions, and what host nodes do.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/mailbox.hpp"
#include "runtime/user_code.hpp"

namespace braid::runtime {
namespace {

using std::chrono::microseconds, std::chrono::milliseconds;

/// How long the thread watches after the last launch has ended.
constexpr microseconds kLinger{100};

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

/// An answer comes within a microsecond where a launch asks all the time, and the processor is free
/// for others where it asks seldom.
void Mailbox::pause(Clock::duration idle) const {
  if (idle < microseconds(50)) {
    relax();
  } else if (idle < milliseconds(20)) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(microseconds(50));
  }
}

void Mailbox::serve() {
  Clock::time_point active = Clock::now();
  const auto busy = [this] { return spins_.pending() && !context_->lost(); };
  while (!closing_) {
    bool found = false;
    for (Site& site : sites_) {
      const uint32_t asked = load_word(site.line->asked);
      if (asked == site.served) continue;
      site.served = asked;
      answer(site, asked);
      found = true;
    }
    const Clock::time_point now = Clock::now();
    if (found) {
      active = now;
    } else if (busy() || now - active < kLinger) {
      pause(now - active);
    } else {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return closing_ || busy(); });
      active = Clock::now();
    }
  }
  std::shared_ptr<Mailbox> self;
  const std::lock_guard lock(mutex_);
  ended_ = true;
  self = std::move(self_);
}

void Mailbox::answer(Site& site, uint32_t sequence) {
  LaunchPtr launch;
  {
    const std::lock_guard lock(mutex_);
    settle(ended());
    if (closed_) return;
    if (!launches_.empty()) launch = launches_.front();
    site.last_sequence = sequence;
    site.last_launch = launch;
    if (load_word(site.line->given_up) == sequence) return;
    if (launch && launch->failures == 0) {
      calling_ = Calling{&site, launch->number, Clock::now()};
    } else {
      store_word(site.line->outcome, static_cast<uint32_t>(MailboxOutcome::failed));
      store_word(site.line->answered, sequence);
      return;
    }
  }
  std::optional<Diagnostic> failure = call(site);
  if (!failure && !closing_) {
    for (size_t i = 0; i < site.results.size(); ++i) {
      const std::vector<std::byte>& bytes = site.results[i].bytes;
      if (bytes.empty()) continue;
      std::memcpy(site.data + site.offsets[site.arguments.size() + i], bytes.data(), bytes.size());
    }
  }
  const std::lock_guard lock(mutex_);
  calling_.reset();
  const bool failed = failure.has_value();
  if (failure) {
    failure->details.push_back(fmt::format("in launch {}", launch->number));
    fail(*launch, std::move(*failure));
  }
  if (closed_) return;
  scan();
  if (load_word(site.line->given_up) == sequence) return;
  const MailboxOutcome outcome = failed ? MailboxOutcome::failed : MailboxOutcome::results;
  store_word(site.line->outcome, static_cast<uint32_t>(outcome));
  store_word(site.line->answered, sequence);
}

std::optional<Diagnostic> Mailbox::call(Site& site) const {
  for (size_t i = 0; i < site.arguments.size(); ++i) {
    std::vector<std::byte>& bytes = site.arguments[i].bytes;
    if (!bytes.empty()) std::memcpy(bytes.data(), site.data + site.offsets[i], bytes.size());
  }
  const auto why =
      call_host_function(*site.function, site.arguments, site.exchange.results, site.results);
  if (!why) return {};
  Diagnostic d;
  d.code = "E0870";
  d.message = fmt::format("{}: {}", text_of(site.exchange), *why);
  return d;
}

void CUDA_CB Mailbox::run_host_node(void* site) {
  Site& s = *static_cast<Site*>(site);
  s.mailbox->wait(s);
}

void Mailbox::wait(Site& site) {
  const uint32_t asked = load_word(site.line->asked);
  const auto give_up = [&] {
    if (load_word(site.line->answered) != asked) store_word(site.line->given_up, asked);
    scan();
  };
  {
    const std::lock_guard lock(mutex_);
    scan();
    if (closed_ || site.gave_up == asked) return;
    if (dead_) return give_up();
  }
  const Clock::time_point began = Clock::now();
  for (;;) {
    const uint32_t answered = load_word(site.line->answered);
    if (answered == asked || answered == kMailboxClosed) return;
    const Clock::duration waited = Clock::now() - began;
    if (options_.deadline.count() > 0 && waited > options_.deadline) {
      const std::lock_guard lock(mutex_);
      return give_up();
    }
    pause(waited);
  }
}

}  // namespace braid::runtime
