// What carries bytes between ranks: MPI (link_mpi.cpp), or nothing (link_none.cpp). One thread
// calls all functions of a Link, the one that opened it. Inside of dist only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tern::dist::detail {

/// What an environment says of the launch: the number of ranks that mpirun or srun started, 0 if
/// the process was started alone.
int64_t launched_ranks();

class Link {
 public:
  virtual ~Link() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;

  /// Begins a transfer. Transfers between two ranks arrive in the order of the calls.
  virtual void send(int64_t to, std::span<const std::byte> bytes) = 0;
  virtual void receive(int64_t from, std::span<std::byte> bytes) = 0;
  /// The ranks of transfers that ended since the last call. What is long is cut: it ends in parts.
  virtual std::vector<int64_t> ended() = 0;
  /// Transfers that have not ended, with each rank and in all.
  virtual const std::vector<int64_t>& open() const = 0;
  virtual size_t pending() const = 0;

  /// A short text besides the transfers, and the next one that has come: rank and text.
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
