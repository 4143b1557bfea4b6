// Runs every experiment in a process of its own, because what is measured is an effect on a
// process: the parent never starts CUDA, compiles the kernels once and forks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gpu.hpp"

namespace probe {

/// The kernels, compiled; made on first use. NVRTC starts no CUDA in the process.
const std::vector<char>& cubin();

/// What an experiment found. `slow_at` is for those on the slow-down, 0 where it did not come.
struct Outcome {
  int slow_at = 0;
  bool failed = true;
};

/// Runs `body` in a child, for at most 20 s. What the child prints goes to stdout.
Outcome in_child(const std::function<Outcome()>& body);

/// Seconds since the program started, and whether the time for it (`PROBE_SECONDS`, 180) is over.
double elapsed();
bool out_of_time();

/// Microseconds a node of a chain of 1000 empty kernels: what the slow-down shows in.
double base_price(const Gpu& gpu, CUgraphExec base, int launches = 3, int rounds = 7);

/// One experiment on the slow-down; text "kind=switch bodies=3 ...", see slowdown.cpp.
Outcome slow(const std::string& spec);
/// The smallest value of `key` in [low, high] with which `spec` slows the process; printed.
void threshold(const std::string& spec, const std::string& key, int low, int high);

void slowdown_tables();
void price_tables();

}  // namespace probe
