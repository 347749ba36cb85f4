// Memory for objects that are made and freed at every save: torch's graphs hold more of them at a time than the C
// library caches for one size.
#pragma once
#include <cstddef>
#include <new>

namespace unclobber {

// Inherit from Pooled<T>, and `new T` takes what this thread has freed last.
template <typename T>
class Pooled {
 public:
#ifdef UNCLOBBER_NO_POOLS  // a sanitizer must see each allocation
  static void* operator new(std::size_t size) { return ::operator new(size, kAlignment); }
  static void operator delete(void* memory, std::size_t) { ::operator delete(memory, kAlignment); }
#else
  static void* operator new(std::size_t size) {
    List& mine = free_;
    Free* found = mine.first;
    if (found == nullptr || size != sizeof(T)) return ::operator new(size, kAlignment);
    mine.first = found->next;
    mine.count--;
    // What comes next was freed a step ago, and has left the caches since.
    const char* next = reinterpret_cast<const char*>(mine.first);
    for (std::size_t at = 0; at < sizeof(T); at += kLine) __builtin_prefetch(next + at, 1);
    return found;
  }
  static void operator delete(void* memory, std::size_t size) {
    List& mine = free_;
    if (!mine.ends) {
      static thread_local Ending ending;
      (void)&ending;
      mine.ends = true;
    }
    if (mine.ended || mine.count >= kMost || size != sizeof(T)) {
      ::operator delete(memory, kAlignment);
      return;
    }
    mine.first = new (memory) Free{mine.first};
    mine.count++;
  }

 private:
  struct Free {
    Free* next;
  };
  struct List {
    Free* first;
    std::size_t count;
    bool ends;   // the list is registered to be freed when the thread ends
    bool ended;  // the thread has ended: memory is returned at once from now on
  };
  struct Ending {
    ~Ending() {
      while (free_.first != nullptr) {
        Free* freed = free_.first;
        free_.first = freed->next;
        ::operator delete(freed, kAlignment);
      }
      free_.ended = true;
    }
  };
  static constexpr std::size_t kMost = 4096;
  static constexpr std::size_t kLine = 64;  // of a cache
  static inline thread_local List free_{nullptr, 0, false, false};
#endif
  static constexpr std::align_val_t kAlignment{alignof(T)};
};

}  // namespace unclobber
