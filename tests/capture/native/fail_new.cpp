// Preloaded by tests of failing memory: the n-th `operator new` that framelift's core asks for fails, those of others do not.
#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <new>

static long countdown = 0;  // 0: nothing fails
static const char *core_begin = nullptr, *core_end = nullptr;

static int find_core(dl_phdr_info* info, size_t, void*) {
  if (!info->dlpi_name || !strstr(info->dlpi_name, "/_core.")) return 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD || !(info->dlpi_phdr[i].p_flags & PF_X)) continue;
    core_begin = (const char*)info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    core_end = core_begin + info->dlpi_phdr[i].p_memsz;
  }
  return 1;
}

// Let the n-th request of the core fail, 0 none.  Returns how many were left of the number before.
extern "C" long fail_new(long n) {
  if (!core_begin) dl_iterate_phdr(find_core, nullptr);
  long left = countdown;
  countdown = n;
  return left;
}

static void* allocate(size_t size, const void* caller) {
  if (countdown > 0 && caller >= core_begin && caller < core_end && --countdown == 0) throw std::bad_alloc();
  void* memory = malloc(size ? size : 1);
  if (!memory) throw std::bad_alloc();
  return memory;
}

void* operator new(size_t size) { return allocate(size, __builtin_return_address(0)); }
void* operator new[](size_t size) { return allocate(size, __builtin_return_address(0)); }
void operator delete(void* memory) noexcept { free(memory); }
void operator delete[](void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }
void operator delete[](void* memory, size_t) noexcept { free(memory); }
