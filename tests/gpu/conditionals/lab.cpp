#include "lab.hpp"

#include <nvrtc.h>
#include <poll.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>

#include "kernels.hpp"

namespace probe {
namespace {

const Clock::time_point kStart = Clock::now();

std::vector<char> compile() {
  nvrtcProgram program;
  if (nvrtcCreateProgram(&program, kKernels, "kernels.cu", 0, nullptr, nullptr) != NVRTC_SUCCESS)
    std::exit(2);
  const char* options[] = {"--gpu-architecture=sm_90a", "--no-cache"};
  if (nvrtcCompileProgram(program, 2, options) != NVRTC_SUCCESS) {
    size_t n = 0;
    nvrtcGetProgramLogSize(program, &n);
    std::string log(n, ' ');
    nvrtcGetProgramLog(program, log.data());
    std::puts(log.c_str());
    std::exit(2);
  }
  size_t n = 0;
  nvrtcGetCUBINSize(program, &n);
  std::vector<char> code(n);
  nvrtcGetCUBIN(program, code.data());
  return code;
}

}  // namespace

const std::vector<char>& cubin() {
  static const std::vector<char> code = compile();
  return code;
}

double elapsed() { return us_since(kStart) / 1e6; }

bool out_of_time() {
  const char* limit = std::getenv("PROBE_SECONDS");
  return elapsed() > (limit ? std::atof(limit) : 180);
}

Outcome in_child(const std::function<Outcome()>& body) {
  cubin();
  std::fflush(stdout);
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    const Outcome out = body();
    std::fflush(stdout);
    const ssize_t n = ::write(ends[1], &out, sizeof out);
    _exit(n == sizeof out ? 0 : 1);
  }
  close(ends[1]);
  Outcome out;
  pollfd wait{ends[0], POLLIN, 0};
  const bool answered =
      child > 0 && poll(&wait, 1, 20000) == 1 && ::read(ends[0], &out, sizeof out) == sizeof out;
  close(ends[0]);
  if (!answered) {
    out = {};
    if (child > 0) kill(child, SIGKILL);
  }
  if (child > 0) waitpid(child, nullptr, 0);
  return out;
}

}  // namespace probe
