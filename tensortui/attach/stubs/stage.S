# The first stage: maps the region, from zero padding after some library's code. It uses no stack, writes no memory and
# changes no flag, and its last jump returns the borrowed thread to where it was. Its constants follow it.
#
# The code page is executable from the start, and never writable: where a process may not make memory executable that
# was writable (PR_SET_MDWE, MemoryDenyWriteExecute), that is still allowed. What is not used is unmapped at once.
.intel_syntax noprefix
.text
s1:
  mov rdi,[rip+dbase]
  mov esi,0x1000
  mov edx,5
  mov r10d,0x100022       # MAP_PRIVATE|ANONYMOUS|FIXED_NOREPLACE
  mov r8,-1
  mov r9d,0
  mov eax,9               # mmap
  syscall
  mov rcx,rdi
  not rcx
  lea rcx,[rax+rcx+1]     # 0 where it was mapped
  jrcxz 1f
  jmp 2f
1: lea rdi,[rdi+0x1000]
  mov rsi,[rip+dsize]
  mov edx,3
  mov eax,9
  syscall
  mov rcx,rdi
  not rcx
  lea rcx,[rax+rcx+1]
  jrcxz 2f
  lea rdi,[rdi-0x1000]
  mov esi,0x1000
  mov eax,11              # munmap
  syscall
2: mov rdi,[rip+d+0]
  mov rsi,[rip+d+8]
  mov rdx,[rip+d+16]
  mov r10,[rip+d+24]
  mov r8,[rip+d+32]
  mov r9,[rip+d+40]
  mov rax,[rip+d+48]
  mov rcx,[rip+d+56]
  mov r11,[rip+d+64]
  jmp [rip+d+72]
.balign 8
constants:
dbase: .quad 0            # address of the region, and size of what follows its code page
dsize: .quad 0
d: .fill 10,8,0           # rdi rsi rdx r10 r8 r9 rax rcx r11 rip to go back with
