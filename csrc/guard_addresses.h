// A multiset of addresses: are all of them different?  Each change costs one removal and one insertion.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace framelift {

class Addresses {
 public:
  // Room for `n` addresses at a time; empties the set.
  void resize(size_t n) {
    size_t size = 8;
    while (size < 2 * n + 1) size *= 2;
    slots_.assign(size, Slot{});
    repeated_ = 0;
  }
  bool contains(const void* address) const { return slots_[seek(address)].count != 0; }
  bool all_different() const { return repeated_ == 0; }
  void add(const void* address) {
    Slot& slot = slots_[seek(address)];
    slot.address = address;
    if (++slot.count == 2) repeated_++;
  }
  void remove(const void* address) {
    size_t at = seek(address);
    if (slots_[at].count == 0) return;
    if (--slots_[at].count == 1) repeated_--;
    if (slots_[at].count == 0) close_gap(at);
  }

 private:
  struct Slot {
    const void* address = nullptr;
    uint32_t count = 0;
  };
  std::vector<Slot> slots_;
  size_t repeated_ = 0;  // addresses that are in it more than once

  size_t home(const void* address) const {
    return (((uint64_t)address >> 4) * 0x9E3779B97F4A7C15ull >> 20) & (slots_.size() - 1);
  }
  size_t seek(const void* address) const {
    size_t at = home(address);
    while (slots_[at].count && slots_[at].address != address) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  // Linear probing without tombstones: move back what would not be found across the gap.
  void close_gap(size_t gap) {
    size_t mask = slots_.size() - 1;
    for (size_t at = (gap + 1) & mask; slots_[at].count; at = (at + 1) & mask) {
      size_t wanted = home(slots_[at].address);
      if (((at - wanted) & mask) >= ((at - gap) & mask)) {
        slots_[gap] = slots_[at];
        slots_[at] = Slot{};
        gap = at;
      }
    }
  }
};

}  // namespace framelift
