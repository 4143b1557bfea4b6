#include "runtime/ring.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <exception>

namespace braid::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kDefaultBytes = uint64_t{4} << 20;
constexpr uint64_t kLeastBytes = uint64_t{1} << 10, kMostBytes = uint64_t{1} << 30;
constexpr size_t kBytesBefore = 256;  // the RingHost, on cache lines of its own

/// The rings whose message functions this thread runs, the innermost first.
struct Inside {
  const Ring* ring;
  const Inside* outer;
};
thread_local const Inside* inside = nullptr;

uint64_t bytes_of(const MessageSource& s) {
  return record_bytes(s.loops, static_cast<uint64_t>(s.type.bytes()));
}

uint64_t capacity_for(const std::vector<MessageSource>& sources, uint64_t asked) {
  uint64_t bytes = asked;
  if (asked == 0) {
    bytes = kDefaultBytes;
    for (const MessageSource& s : sources) {
      bytes = std::max(bytes, kLargestPart * std::min(bytes_of(s), kMostBytes));
    }
  }
  return std::bit_ceil(std::clamp(bytes, kLeastBytes, kMostBytes));
}

/// Little is asked of the host: it looks without a pause while messages come, then more and more
/// seldom.
void pause(Clock::duration idle) {
  using std::chrono::microseconds, std::chrono::milliseconds;
  if (idle < microseconds(50)) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(idle < milliseconds(50) ? microseconds(100) : microseconds(1000));
  }
}

std::string where_text(const Message& m) {
  std::string s = m.op + (m.place.empty() ? "" : ", " + m.place);
  s += fmt::format(", launch {}", m.launch);
  if (!m.iterations.empty()) s += fmt::format(", iteration {}", fmt::join(m.iterations, "."));
  return s;
}

Diagnostic check_failed(const Message& m) {
  const int64_t count = m.value.int_at(0);
  Diagnostic d;
  d.code = "E0860";
  d.message = fmt::format("the check '{}' failed for {} element{}: {}", m.text, count,
                          count == 1 ? "" : "s", where_text(m));
  d.suggestion = "print what it takes, or what that is computed from";
  return d;
}

Diagnostic function_failed(const Message& m, const std::string& why) {
  Diagnostic d;
  d.code = "E0861";
  d.message =
      fmt::format("the message function failed on '{}' ({}): {}", m.text, where_text(m), why);
  return d;
}

}  // namespace

Ring::Ring(ContextPtr context, const Program& program, MessageOptions options, CUstream stream)
    : context_(std::move(context)), sources_(program.messages), options_(std::move(options)) {
  Driver& driver = *context_->driver;
  const uint64_t capacity = capacity_for(sources_, options_.ring_bytes);
  const std::string what = fmt::format("{} bytes for the messages of {}", capacity, program.name);
  void* memory = nullptr;
  context_->check(
      driver.cuMemHostAlloc(&memory, kBytesBefore + capacity, CU_MEMHOSTALLOC_DEVICEMAP),
      "cuMemHostAlloc", what);
  memory_ = OwnedHostMemory(context_, memory);
  std::memset(memory, 0, kBytesBefore + capacity);
  CUdeviceptr address = 0;
  context_->check(driver.cuMemHostGetDevicePointer(&address, memory, 0),
                  "cuMemHostGetDevicePointer", what);
  host_ = static_cast<RingHost*>(memory);
  bytes_ = static_cast<std::byte*>(memory) + kBytesBefore;
  capacity_ = static_cast<uint32_t>(capacity);
  control_ = allocate(context_, sizeof(RingControl), "ring of " + program.name);
  RingControl control;
  control.bytes = address + kBytesBefore;
  control.host = address;
  control.capacity = capacity_;
  context_->check(driver.cuMemcpyHtoDAsync(control_.get(), &control, sizeof control, stream),
                  "cuMemcpyHtoDAsync", what);
  context_->check(driver.cuStreamSynchronize(stream), "cuStreamSynchronize", what);
  thread_ = std::thread([this] { poll(); });
}

Ring::~Ring() { close(); }

Ring::LaunchPtr Ring::begin() {
  const std::lock_guard lock(mutex_);
  launches_.push_back(std::make_shared<Launch>());
  launches_.back()->number = next_++;
  wake_.notify_all();
  return launches_.back();
}

void Ring::finish(const Launch& launch) {
  refuse_inside();
  read(launch.number, SIZE_MAX);
  settle(launch.number + 1);
}

void Ring::abandon(const Launch& launch, CUstream on) {
  const auto ended = static_cast<uint32_t>(launch.number + 1);
  context_->driver->cuMemcpyHtoDAsync(control_.get() + offsetof(RingControl, launch), &ended,
                                      sizeof ended, on);
  context_->driver->cuStreamSynchronize(on);
  std::atomic_ref(host_->ended).store(ended, std::memory_order_release);
}

void Ring::close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  read(UINT64_MAX, SIZE_MAX);
  settle(UINT64_MAX);
  const std::lock_guard reading(reading_);
  closed_ = true;
  control_.reset();
  memory_.reset();
}

void Ring::poll() {
  constexpr size_t kBatch = 256;
  Clock::time_point active = Clock::now();
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (launches_.empty() && !closing_) {
        wake_.wait(lock, [this] { return closing_ || !launches_.empty(); });
        active = Clock::now();
      }
      if (closing_) return;
    }
    // Before the read, which then finds all that those launches sent.
    const uint32_t ended = std::atomic_ref(host_->ended).load(std::memory_order_acquire);
    const size_t count = read(UINT64_MAX, kBatch);
    if (count < kBatch) settle_ended(ended);
    if (count > 0) {
      active = Clock::now();
    } else {
      pause(Clock::now() - active);
    }
  }
}

void Ring::drain() {
  refuse_inside();
  read(UINT64_MAX, SIZE_MAX);
}

size_t Ring::read(uint64_t last, size_t most) {
  size_t count = 0;
  for (; count < most; ++count) {
    // Let go after each: whoever waits for a launch takes turns with the thread.
    const std::lock_guard reading(reading_);
    if (!read_one(last)) break;
  }
  return count;
}

std::byte* Ring::at_position() { return bytes_ + (position_ & (capacity_ - 1)); }

bool Ring::read_one(uint64_t last) {
  if (closed_ || broken_) return false;
  std::byte* const at = at_position();
  const std::atomic_ref ready(*reinterpret_cast<uint32_t*>(at));
  if (ready.load(std::memory_order_acquire) != static_cast<uint32_t>(position_ + 1)) return false;
  RecordHeader header;
  std::memcpy(&header, at, sizeof header);
  if (header.id == kSkip) {
    advance(header.bytes);
    return true;
  }
  const LaunchPtr launch = launch_of(header.launch);
  if (launch && launch->number > last) return false;
  try {
    Message message = message_of(header);
    message.launch = launch ? launch->number : 0;
    advance(header.bytes);
    deliver(std::move(message), launch);
  } catch (const std::exception&) {
    broken_ = true;
    return false;
  }
  return true;
}

void Ring::advance(uint32_t bytes) {
  std::memset(at_position(), 0, bytes);
  position_ += bytes;
  std::atomic_ref(host_->consumed).store(position_, std::memory_order_release);
}

Message Ring::message_of(const RecordHeader& header) const {
  ensure(header.id < sources_.size(), "a record of the ring is of no send");
  const MessageSource& source = sources_[header.id];
  ensure(header.bytes == bytes_of(source), "a record of the ring has another size than its send");
  const std::byte* const at = bytes_ + (position_ & (capacity_ - 1));
  Message m;
  m.kind = source.kind;
  m.text = source.text;
  m.op = source.op;
  m.place = source.place;
  m.dropped_before = header.dropped;
  m.value = HostTensor(source.type);
  const std::byte* const value = at + value_offset(source.loops);
  std::copy_n(value, m.value.bytes.size(), m.value.bytes.begin());
  for (uint32_t i = 0; i < source.loops; ++i) {
    int32_t number = 0;
    std::memcpy(&number, at + sizeof(RecordHeader) + i * sizeof number, sizeof number);
    m.iterations.push_back(number);
  }
  return m;
}

Ring::LaunchPtr Ring::launch_of(uint32_t number) const {
  const std::lock_guard lock(mutex_);
  if (launches_.empty()) return nullptr;
  const uint32_t after = number - static_cast<uint32_t>(launches_.front()->number);
  return launches_[std::min<size_t>(after, launches_.size() - 1)];
}

void Ring::deliver(Message message, const LaunchPtr& launch) {
  {
    const std::lock_guard lock(mutex_);
    dropped_ += message.dropped_before;
  }
  if (message.kind == ir::MessageKind::check) fail(launch, check_failed(message));
  if (message.kind == ir::MessageKind::item && launch) {
    const std::lock_guard lock(mutex_);
    launch->items[message.text] = message;
  }
  if (!options_.on_message) {
    if (message.kind != ir::MessageKind::item) keep(std::move(message));
    return;
  }
  const Inside here{this, inside};
  inside = &here;
  try {
    options_.on_message(message);
  } catch (const std::exception& e) {
    fail(launch, function_failed(message, e.what()));
  } catch (...) {
    fail(launch, function_failed(message, "it threw something that is no std::exception"));
  }
  inside = here.outer;
}

void Ring::keep(Message message) {
  const auto size = [](const Message& m) { return sizeof m + m.value.bytes.size(); };
  const std::lock_guard lock(mutex_);
  kept_bytes_ += size(message);
  kept_.push_back(std::move(message));
  while (kept_bytes_ > options_.kept_bytes && kept_.size() > 1) {
    const uint64_t lost = kept_.front().dropped_before + 1;
    kept_bytes_ -= size(kept_.front());
    kept_.pop_front();
    kept_.front().dropped_before += lost;
    ++dropped_;
  }
}

void Ring::fail(const LaunchPtr& launch, Diagnostic d) {
  if (!launch) return;
  const std::lock_guard lock(mutex_);
  if (launch->failures++ == 0) launch->failure = std::move(d);
}

void Ring::settle(uint64_t number) {
  const std::lock_guard lock(mutex_);
  while (!launches_.empty() && launches_.front()->number < number) launches_.pop_front();
}

void Ring::settle_ended(uint32_t ended) {
  const std::lock_guard lock(mutex_);
  if (launches_.empty()) return;
  const uint32_t count = ended - static_cast<uint32_t>(launches_.front()->number);
  // More than there are: what it counts was settled by those who waited for it.
  if (count > launches_.size()) return;
  launches_.erase(launches_.begin(), launches_.begin() + count);
}

void Ring::rethrow(const Launch& launch) const {
  ensure(!broken_, "the ring of messages holds what no send writes");
  const std::lock_guard lock(mutex_);
  if (!launch.failure) return;
  Diagnostic d = *launch.failure;
  if (launch.failures > 1) {
    d.details.push_back(fmt::format("{} more failed in this launch", launch.failures - 1));
  }
  throw Error(std::move(d));
}

std::map<std::string, Message, std::less<>> Ring::items(const Launch& launch) const {
  const std::lock_guard lock(mutex_);
  return launch.items;
}

HostTensor Ring::item(const Launch& launch, std::string_view label) const {
  const std::lock_guard lock(mutex_);
  const auto found = launch.items.find(label);
  if (found != launch.items.end()) return found->second.value;
  std::vector<std::string> known;
  for (const MessageSource& s : sources_) {
    if (s.kind == ir::MessageKind::item) known.push_back(s.text);
  }
  if (std::find(known.begin(), known.end(), label) == known.end()) {
    throw_error("E0862", fmt::format("the program has no item '{}'", label),
                suggest_or_list(label, known));
  }
  throw_error("E0862", fmt::format("launch {} sent no item '{}'", launch.number, label),
              "it stands in a branch that was not taken, in a loop that ran no iteration, or was "
              "dropped where the ring was full: see Executable::dropped_messages");
}

std::vector<Message> Ring::take_messages() {
  const std::lock_guard lock(mutex_);
  std::vector<Message> taken(std::make_move_iterator(kept_.begin()),
                             std::make_move_iterator(kept_.end()));
  kept_.clear();
  kept_bytes_ = 0;
  return taken;
}

uint64_t Ring::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

void Ring::refuse_inside() const {
  for (const Inside* i = inside; i != nullptr; i = i->outer) {
    if (i->ring != this) continue;
    throw_error("E0863", "the message function uses the executable whose messages it gets",
                "do it after the launch, or keep what it gets for another thread");
  }
}

}  // namespace braid::runtime
