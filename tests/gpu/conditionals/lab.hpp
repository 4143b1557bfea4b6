// Runs every experiment in a process of its own, because what is measured is an effect on a
// process: the parent never starts CUDA, compiles the kernels once and forks.
#pragma once

#include <string>
#include <vector>

#include "gpu.hpp"

namespace probe {

/// The kernels, compiled; made on first use. NVRTC starts no CUDA in the process.
const std::vector<char>& cubin();

/// What an experiment found. `slow`: at its end the chain took 15 % more than at its start.
struct Outcome {
  bool slow = false;
  bool failed = true;
};

/// Runs `body` in a child, for at most 20 s. What the child prints goes to stdout.
Outcome in_child(const std::function<Outcome()>& body);

/// Seconds since the program started, and whether the time for it (`PROBE_SECONDS`, 180) is over.
double elapsed();
bool out_of_time();

/// Microseconds a node of a chain of 1000 empty kernels: what the slow-down shows in.
double base_price(const Gpu& gpu, CUgraphExec base, int launches = 3, int rounds = 7);

/// Plays a story (story.cpp says what they are made of) and prints the chain's price after each
/// word.
Outcome tell(const std::string& story, bool print = true);
/// The smallest number in [low, high] that, in the place of %, makes the story end slow; prints it.
void threshold(const std::string& story, int low, int high);

void slowdown_tables();
void price_tables();

}  // namespace probe
