// Prints, items and failed checks of a launch, as the tool shows or counts them.
#include <fmt/format.h>

#include "frontend/cli/cli.hpp"

namespace braid::cli {

MessageOptions Messages::options() {
  return {[this](const Message& m) {
    ++delivered_;
    if (mode_ != "show") return;
    if (!global_.json_diagnostics) return say(to_string(m) + "\n");
    Diagnostic d;
    d.severity = Severity::note;
    d.message = to_string(m);
    say(render_json({d}));
  }};
}

void Messages::finish(const Executable& e) const {
  const uint64_t lost = e.dropped_messages();
  if (mode_ == "count" && (delivered_ > 0 || lost > 0)) {
    note(global_,
         fmt::format("{} message{} from launches", delivered_.load(), delivered_ == 1 ? "" : "s"));
  }
  if (lost > 0 && mode_ != "off") {
    note(global_, fmt::format("{} message{} lost: more were sent at once than the ring holds", lost,
                              lost == 1 ? " was" : "s were"));
  }
}

}  // namespace braid::cli
