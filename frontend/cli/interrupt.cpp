// Ctrl-C while kernels are compiled and files are written: the work in hand is finished, nothing
// half-written is left, and the exit code is 130. A second Ctrl-C ends the process at once.
#include <csignal>

#include "frontend/cli/cli.hpp"

namespace braid::cli {
namespace {

volatile std::sig_atomic_t seen = 0;

void on_signal(int) { seen = 1; }

}  // namespace

InterruptGuard::InterruptGuard() {
  seen = 0;
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGINT, &action, &before_);
}

InterruptGuard::~InterruptGuard() { ::sigaction(SIGINT, &before_, nullptr); }

bool InterruptGuard::seen_signal() { return seen != 0; }

}  // namespace braid::cli
