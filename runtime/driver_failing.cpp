#include <atomic>
#include <utility>

#include "runtime/driver.hpp"

namespace braid::runtime {
namespace {

class FailingDriver final : public Driver {
 public:
  FailingDriver(std::shared_ptr<Driver> inner, std::function<CUresult(int64_t, const char*)> fail)
      : inner_(std::move(inner)), fail_(std::move(fail)) {}

  bool simulated() const override { return inner_->simulated(); }
  std::string last_report() const override { return inner_->last_report(); }
  void provide(CUlibrary library, const std::shared_ptr<const HostFunctions>& functions) override {
    inner_->provide(library, functions);
  }

#define BRAID_CALL(name, version, params, args)                                   \
  CUresult name params override {                                                 \
    if (const CUresult result = fail_(calls_++, #name); result != CUDA_SUCCESS) { \
      return result;                                                              \
    }                                                                             \
    return inner_->name args;                                                     \
  }
#include "runtime/driver_calls.inc"
#undef BRAID_CALL

 private:
  std::shared_ptr<Driver> inner_;
  std::function<CUresult(int64_t, const char*)> fail_;
  std::atomic<int64_t> calls_ = 0;
};

}  // namespace

std::shared_ptr<Driver> failing_driver(std::shared_ptr<Driver> inner,
                                       std::function<CUresult(int64_t, const char*)> fail) {
  return std::make_shared<FailingDriver>(std::move(inner), std::move(fail));
}

}  // namespace braid::runtime
