#include "runtime/input_sets.hpp"

#include "runtime/context.hpp"

namespace braid::runtime {

struct InputSets::Impl {
  struct Input {
    std::string name;
    int64_t bytes = 0;
    DevicePtr own = 0;                // what was bound at first
    std::vector<OwnedMemory> values;  // one for each set
  };
  Executable& executable;
  ContextPtr context;
  std::vector<Input> inputs;
  size_t sets = 0;
  OwnedStream stream;
  bool moved = false;  // something else is bound than at first

  void restore() {
    if (!moved) return;
    for (const Input& input : inputs) executable.bind(input.name, input.own, input.bytes);
    moved = false;
  }
};

InputSets::InputSets(Executable& executable,
                     const std::vector<std::map<std::string, HostTensor>>& sets)
    : impl_(new Impl{executable, executable.store().device().context(), {}, sets.size(), {}}) {
  ensure(!sets.empty(), "no set of inputs is given");
  const Current current(impl_->context);
  impl_->stream = make_stream(impl_->context);
  Driver& driver = *impl_->context->driver;
  const Program& p = executable.program();
  for (const Binding& b : p.inputs) {
    Impl::Input input{b.name, p.buffers[b.buffer].bytes, executable.address(b.name), {}};
    for (const auto& set : sets) {
      const auto given = set.find(b.name);
      ensure(given != set.end() && given->second.type == p.buffers[b.buffer].type,
             "a set of inputs lacks one, or has it of another type");
      const HostTensor& value = given->second;
      input.values.push_back(allocate(impl_->context, input.bytes, b.name));
      if (input.bytes == 0) continue;
      impl_->context->check(
          driver.cuMemcpyHtoD(input.values.back().get(), value.bytes.data(), value.bytes.size()),
          "cuMemcpyHtoD", b.name);
    }
    impl_->inputs.push_back(std::move(input));
  }
}

InputSets::~InputSets() {
  try {
    impl_->restore();
  } catch (const std::exception&) {
    // The context is lost: nothing can be launched any more.
  }
}

size_t InputSets::size() const { return impl_->sets; }

void InputSets::give(size_t set, Feed how, Stream stream) {
  Impl& impl = *impl_;
  const size_t at = set % impl.sets;
  if (how == Feed::bind) {
    impl.moved = true;
    for (const Impl::Input& input : impl.inputs) {
      impl.executable.bind(input.name, input.values[at].get(), input.bytes);
    }
  } else if (how == Feed::copy) {
    impl.restore();
    const Current current(impl.context);
    for (const Impl::Input& input : impl.inputs) {
      impl.context->check(
          impl.context->driver->cuMemcpyDtoDAsync(input.own, input.values[at].get(),
                                                  static_cast<size_t>(input.bytes), stream),
          "cuMemcpyDtoDAsync", input.name);
    }
  }
}

std::map<std::string, HostTensor> InputSets::run(size_t set, Feed how, LaunchMode mode) {
  Executable& executable = impl_->executable;
  executable.poison();
  give(set, how, impl_->stream.get());
  executable.launch(impl_->stream.get(), mode).wait();
  std::map<std::string, HostTensor> outputs;
  for (const Binding& b : executable.program().outputs) {
    outputs.emplace(b.name, executable.read(b.name));
  }
  return outputs;
}

}  // namespace braid::runtime
