// The interface that carries bytes between ranks: by MPI (link_mpi.cpp), or an Error in a build
// without MPI (link_none.cpp). Only the thread that opened a Link may use it. Inside of dist only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tern::dist::detail {

class Link {
 public:
  virtual ~Link() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;

  /// Begins a transfer. Transfers between two ranks arrive in the order of the calls.
  virtual void send(int64_t to, std::span<const std::byte> bytes) = 0;
  virtual void receive(int64_t from, std::span<std::byte> bytes) = 0;
  /// The ranks of transfers that ended since the last call. A long transfer consists of several
  /// messages, and each of them counts as one.
  virtual std::vector<int64_t> ended() = 0;
  /// The number of transfers in progress, by rank and in total.
  virtual const std::vector<int64_t>& open() const = 0;
  virtual size_t pending() const = 0;

  /// Sends a short text outside of the transfers; told() returns the next one received.
  virtual void tell(int64_t to, const std::string& text) = 0;
  struct Told {
    int64_t rank;
    std::string text;
  };
  virtual std::optional<Told> told() = 0;

  /// Ends the processes of all ranks. Does not return.
  [[noreturn]] virtual void abort(int code) = 0;
};

/// Joins the ranks that were started with this process. Error if that fails.
std::unique_ptr<Link> open_link();

}  // namespace tern::dist::detail
