# The code page of the region. Its data page follows it; data offsets are those of attach/region.py.
#
# entry    a borrowed thread arrives here on our own stack, makes one C call, takes its registers back and returns to
#          the very instruction it was taken from
# pending  the callback of Py_AddPendingCall: main thread, GIL held
# tstart   the start routine of a native thread of ours
#
# nowhere  stands in for __errno_location where there is none
#
# The two callbacks claim one flag with an atomic exchange, so that the source runs at most once. The one that got it
# announces that before it looks whether it was cancelled, and the attacher cancels before it looks for an announcement:
# one of them sees the other's word. Last of all they count themselves as returned: when as many have returned as were
# queued, the region is free for another attach.
.intel_syntax noprefix
.text
.set D, base+0x1000
base:
entry:
  cld
  call [rip+D+0x110]        # Py_IsInitialized
  test eax,eax
  mov eax,-99
  je 3f
  call [rip+D+0x160]        # __errno_location: the thread's code may look at errno when it goes on
  mov rbx,rax
  mov r12d,[rax]
  mov rdi,[rip+D+0x98]
  mov rsi,[rip+D+0xa0]
  mov rdx,[rip+D+0xa8]
  mov rcx,[rip+D+0xb0]
  xor eax,eax
  call [rip+D+0x90]
  mov [rbx],r12d
3: mov [rip+D+0xb8],rax       # the result of the call
  mov eax,-1
  mov edx,-1
  xrstor64 [rip+D+0x1000]   # vector state, then flags, then the rest
  push qword ptr [rip+D+0x78]
  popfq
  mov r15,[rip+D+0x00]
  mov r14,[rip+D+0x08]
  mov r13,[rip+D+0x10]
  mov r12,[rip+D+0x18]
  mov rbp,[rip+D+0x20]
  mov rbx,[rip+D+0x28]
  mov r11,[rip+D+0x30]
  mov r10,[rip+D+0x38]
  mov r9,[rip+D+0x40]
  mov r8,[rip+D+0x48]
  mov rax,[rip+D+0x50]
  mov rcx,[rip+D+0x58]
  mov rdx,[rip+D+0x60]
  mov rsi,[rip+D+0x68]
  mov rdi,[rip+D+0x70]
  mov rsp,[rip+D+0x80]
  mov qword ptr [rip+D+0xc0],1      # done
  jmp [rip+D+0x88]          # the saved rip
.balign 16
pending:                    # int pending(void *), always 0
  push rbx
  mov eax,1
  xchg [rip+D+0x118],rax    # claim
  test rax,rax
  jne 1f
  mov eax,3
  xchg [rip+D+0x120],rax    # ran-by: announced
  cmp qword ptr [rip+D+0x158],0   # cancelled
  jne 4f
  mov qword ptr [rip+D+0x120],1   # ran-by: pending
  mov rdi,[rip+D+0xe0]
  xor esi,esi
  call [rip+D+0xd0]         # PyRun_SimpleStringFlags(s,NULL)
  movsxd rax,eax
  mov [rip+D+0xf0],rax
  mov qword ptr [rip+D+0x128],1   # finished
  jmp 1f
4: mov qword ptr [rip+D+0x120],0
1: lock inc qword ptr [rip+D+0x130]   # returned
  xor eax,eax
  pop rbx
  ret
.balign 16
tstart:                     # void *tstart(void *)
  push rbx
  mov qword ptr [rip+D+0xe8],1
  call [rip+D+0x100]        # pthread_self
  mov rdi,rax
  call [rip+D+0x108]        # pthread_detach
  call [rip+D+0xc8]         # PyGILState_Ensure
  mov ebx,eax
  mov qword ptr [rip+D+0xe8],2
  mov eax,1
  xchg [rip+D+0x118],rax
  test rax,rax
  jne 2f
  mov eax,3
  xchg [rip+D+0x120],rax
  cmp qword ptr [rip+D+0x158],0
  jne 5f
  mov qword ptr [rip+D+0x120],2   # ran-by: thread
  mov rdi,[rip+D+0xe0]
  xor esi,esi
  call [rip+D+0xd0]
  movsxd rax,eax
  mov [rip+D+0xf0],rax
  mov qword ptr [rip+D+0x128],1
  jmp 2f
5: mov qword ptr [rip+D+0x120],0
2: mov qword ptr [rip+D+0xe8],3
  mov edi,ebx
  call [rip+D+0xd8]         # PyGILState_Release
  mov qword ptr [rip+D+0xe8],4
  lock inc qword ptr [rip+D+0x130]
  xor eax,eax
  pop rbx
  ret
.balign 16
nowhere:
  lea rax,[rip+D+0x168]
  ret
end:
