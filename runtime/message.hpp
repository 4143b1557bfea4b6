// What a program tells the host while it runs: prints, items and checks that fail.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ir/op.hpp"
#include "ir/tensor.hpp"

namespace braid {

struct Message {
  ir::MessageKind kind = ir::MessageKind::print;
  std::string text;  // the label, or what a check wants to hold
  HostTensor value;  // a check's: the number of elements that fail, i32[]
  std::string op;    // scoped name with kind
  std::string place;
  uint64_t launch = 0;              // of the executable, from 0
  std::vector<int64_t> iterations;  // of the loops around it, the outermost loop's first
  uint64_t dropped_before = 0;      // messages lost between this one and the one before
};

/// `loss f32[] = 0.2513   model.toml:14:3  launch 12, iteration 3`; a tensor of many elements is
/// shortened to the first and last ones of each axis.
std::string to_string(const Message& m);
/// `[[1, 2, 3, ..., 8], ...]`: at most three elements at both ends of each axis.
std::string abbreviated(const HostTensor& t);

using MessageFunction = std::function<void(const Message&)>;

struct MessageOptions {
  /// Gets every message, in order, one at a time, in a thread of the executable's or in one that
  /// waits for a launch. Until it returns nothing more is read, so it should be quick: a ring that
  /// is full drops messages and counts them. It may not use its executable (Error E0863). What it
  /// throws fails the launch that the message is from.
  MessageFunction on_message{};
  /// Bytes of the ring that messages wait in, rounded up to a power of two, at least 1 KiB, at most
  /// 1 GiB. What is larger than a quarter of it is dropped. 0: 4 MiB, or more where one message
  /// needs it.
  uint64_t ring_bytes = 0;
  /// Without on_message prints and checks are kept to be taken, the newest of them that have about
  /// so many bytes.
  uint64_t kept_bytes = uint64_t{64} << 20;
};

}  // namespace braid
