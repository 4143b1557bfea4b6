// The disk cache of compiled kernels.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace braid::runtime {

/// Entries are files named by a hash of their key; each holds the whole key, so that two keys with
/// one hash cannot be confused, and a checksum. They are written under another name and renamed:
/// readers see all or nothing. An entry that cannot be read, or fails its checks, counts as
/// missing; a folder that cannot be written means that nothing is kept.
class Cache {
 public:
  /// Keeps nothing.
  Cache() = default;
  explicit Cache(std::string folder) : folder_(std::move(folder)) {}
  /// BRAID_CACHE (empty: no cache), else XDG_CACHE_HOME/braid, else HOME/.cache/braid.
  static Cache from_environment();

  const std::string& folder() const { return folder_; }
  std::optional<std::vector<std::byte>> get(std::string_view key) const;
  /// False if the entry could not be written; `why` then receives the reason, one clause, which
  /// stays empty where nothing is to be kept.
  bool put(std::string_view key, const std::vector<std::byte>& value,
           std::string* why = nullptr) const;
  /// The file that holds a key's entry.
  std::string path_of(std::string_view key) const;

 private:
  std::string folder_;
};

}  // namespace braid::runtime
