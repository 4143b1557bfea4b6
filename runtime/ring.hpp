// Inside the runtime: the ring of messages of one executable, and their way to whoever wants them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ir/diagnostic.hpp"
#include "ir/program.hpp"
#include "ir/ring.hpp"
#include "runtime/context.hpp"
#include "runtime/message.hpp"

namespace braid::runtime {

/// Owns the ring's memory and a thread that reads it while launches are under way. Messages are
/// read in order, by one thread at a time: that thread, or one that waits for a launch. Shared with
/// tickets, which may outlive the executable.
class Ring {
 public:
  /// One launch and what became of its messages. Guarded by the ring.
  struct Launch {
    uint64_t number = 0;
    std::map<std::string, Message, std::less<>> items;  // the last one of each label
    std::optional<Diagnostic> failure;                  // the first
    size_t failures = 0;
  };
  using LaunchPtr = std::shared_ptr<Launch>;

  /// The context must be current. Launches must follow what is on `stream` now.
  Ring(ContextPtr context, const Program& program, MessageOptions options, CUstream stream);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  /// What kernels get: the address of the RingControl.
  CUdeviceptr control() const { return control_.get(); }

  /// To be called before anything of a launch is enqueued, in the order of launches.
  LaunchPtr begin();
  /// To be called once the device has done all of a launch: delivers what it sent.
  void finish(const Launch& launch);
  /// Of a launch that was given up in between, which the device may not have counted. Delivers
  /// nothing. `on` is a stream on which nothing runs. Ignores errors.
  void abandon(const Launch& launch, CUstream on);
  /// Delivers what is there, ends the thread and gives the memory back; nothing of the executable
  /// may run. Neither begin nor abandon may follow.
  void close();

  /// Throws Error: the first thing that failed in a finished launch, or nothing.
  void rethrow(const Launch& launch) const;
  std::map<std::string, Message, std::less<>> items(const Launch& launch) const;
  /// Throws Error E0862 if the launch sent none of that label.
  HostTensor item(const Launch& launch, std::string_view label) const;

  std::vector<Message> take_messages();
  /// Of the messages read so far and those that were kept, how many were lost. What the device has
  /// counted since its last message is in the RingControl.
  uint64_t dropped() const;
  void drain();

  /// Throws Error E0863 where this thread runs the message function of this ring.
  void refuse_inside() const;

 private:
  /// By program order: reads at most `most` messages of launches up to `last`, and delivers them.
  size_t read(uint64_t last, size_t most);
  /// Under reading_. False if there is nothing to read.
  bool read_one(uint64_t last);
  std::byte* at_position();
  void advance(uint32_t bytes);
  /// Throws InternalError for a record that no send writes.
  Message message_of(const RecordHeader& header) const;
  void deliver(Message message, const LaunchPtr& launch);
  void keep(Message message);
  void fail(const LaunchPtr& launch, Diagnostic d);
  /// The launch that a record is from.
  LaunchPtr launch_of(uint32_t number) const;
  /// Forgets launches before this number: everything they sent is read.
  void settle(uint64_t number);
  /// The same, by how many launches the device has ended.
  void settle_ended(uint32_t ended);
  void poll();

  ContextPtr context_;
  const std::vector<MessageSource> sources_;
  const MessageOptions options_;
  OwnedMemory control_;
  OwnedHostMemory memory_;
  RingHost* host_ = nullptr;
  std::byte* bytes_ = nullptr;
  uint32_t capacity_ = 0;

  std::mutex reading_;  // held while a message is read and delivered; before mutex_
  uint64_t position_ = 0;
  bool closed_ = false;
  std::atomic<bool> broken_ = false;  // nothing more can be read

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool closing_ = false;
  std::deque<LaunchPtr> launches_;  // under way, or not read to the end
  uint64_t next_ = 0;               // number of the next launch
  std::deque<Message> kept_;
  uint64_t kept_bytes_ = 0;
  uint64_t dropped_ = 0;

  std::thread thread_;
};

}  // namespace braid::runtime
