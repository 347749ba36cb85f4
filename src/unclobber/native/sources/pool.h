// Memory for what is made and freed at every save: torch's graphs hold more of them at a time than the C library
// keeps at hand for one size.
#pragma once
#include <cstddef>
#include <new>

namespace unclobber {

// Inherit from Pooled<T>, and `new T` takes what this thread has freed last.
template <typename T>
class Pooled {
 public:
#ifndef UNCLOBBER_NO_POOLS  // a sanitizer is to see each of them
  static void* operator new(std::size_t size) {
    Free* found = free_.first;
    if (found == nullptr || size != sizeof(T)) return ::operator new(size);
    free_.first = found->next;
    free_.count--;
    return found;
  }
  static void operator delete(void* memory, std::size_t size) {
    static thread_local Ending ending;
    (void)&ending;
    if (free_.ended || free_.count >= kMost || size != sizeof(T)) {
      ::operator delete(memory);
      return;
    }
    free_.first = new (memory) Free{free_.first};
    free_.count++;
  }

 private:
  struct Free {
    Free* next;
  };
  struct List {
    Free* first;
    std::size_t count;
    bool ended;  // the thread ends: what is freed from now on goes back at once
  };
  struct Ending {
    ~Ending() {
      while (free_.first != nullptr) {
        Free* freed = free_.first;
        free_.first = freed->next;
        ::operator delete(freed);
      }
      free_.ended = true;
    }
  };
  static constexpr std::size_t kMost = 4096;
  static inline thread_local List free_{nullptr, 0, false};
#endif
};

}  // namespace unclobber
