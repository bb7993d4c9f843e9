#include "spawn/sys.h"

/* clone3 returns in the child on an empty stack, so no C code may run between the system call and
 * the call of fn. */
#if defined(__x86_64__)
__asm__(".text\n"
        ".globl sys_clone_on_stack\n"
        ".type sys_clone_on_stack, @function\n"
        "sys_clone_on_stack:\n"
        "    movq %rdx, %r8\n" /* arg; a system call overwrites rcx and r11 */
        "    movq %rsi, %r9\n" /* fn */
        "    movl $88, %esi\n" /* sizeof(struct clone_args), including cgroup */
        "    movl $435, %eax\n"
        "    syscall\n"
        "    testq %rax, %rax\n"
        "    jnz 1f\n"
        "    xorl %ebp, %ebp\n"
        "    movq %r8, %rdi\n"
        "    call *%r9\n"
        "    movl %eax, %edi\n"
        "    movl $60, %eax\n"
        "    syscall\n"
        "1:  ret\n"
        ".size sys_clone_on_stack, .-sys_clone_on_stack\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl sys_clone_on_stack\n"
        ".type sys_clone_on_stack, %function\n"
        "sys_clone_on_stack:\n"
        "    mov x9, x1\n"
        "    mov x10, x2\n"
        "    mov x1, #88\n"
        "    mov x8, #435\n"
        "    svc #0\n"
        "    cbnz x0, 1f\n"
        "    mov x29, xzr\n"
        "    mov x0, x10\n"
        "    blr x9\n"
        "    mov x8, #93\n"
        "    svc #0\n"
        "1:  ret\n"
        ".size sys_clone_on_stack, .-sys_clone_on_stack\n");
#endif
_Static_assert(sizeof(struct clone_args) == 88, "clone_args has the size the assembly passes");
