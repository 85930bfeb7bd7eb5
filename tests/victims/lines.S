/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * lines.S - 100 bytes of code, and a line table of 30 million lines, which packed is 30 KB: main keeps a block of 1000 bytes. Status 7. (Assembled by hand: no
 * compiler writes such tables. DWARF 4; a unit without children, its name, its code, its lines.)
 */
	.text
	.globl	main
	.type	main, @function
main:
	.cfi_startproc
	sub	$8, %rsp
	.cfi_def_cfa_offset 16
	mov	$1000, %edi
	call	malloc@PLT
	mov	%rax, kept(%rip)
	mov	$7, %eax
	add	$8, %rsp
	ret
	.cfi_endproc
.Lend:
	.size	main, . - main
	.local	kept
	.comm	kept, 8, 8

	.section .debug_abbrev, "", @progbits
.Labbrev:
	/* compile_unit, no children: low_pc addr, high_pc data8, stmt_list sec_offset, name string */
	.byte	1, 0x11, 0, 0x11, 0x01, 0x12, 0x07, 0x10, 0x17, 0x03, 0x08, 0, 0, 0

	.section .debug_info, "", @progbits
	.long	.Linfo_end - .Linfo
.Linfo:	.value	4
	.long	.Labbrev
	.byte	8, 1
	.quad	main, .Lend - main
	.long	.Lline
	.asciz	"lines.S"
.Linfo_end:

	.section .debug_line, "", @progbits
.Lline:	.long	.Lline_end - .Lversion
.Lversion:
	.value	4
	.long	.Lprogram - .Lheader
.Lheader:
	.byte	1, 1, 1, -5, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1
	.byte	0
	.asciz	"lines.S"
	.byte	0, 0, 0, 0
.Lprogram:
	.byte	0, 9, 2		/* set_address */
	.quad	main
	.fill	30000000, 1, 1	/* copy */
	.byte	2		/* advance_pc */
	.uleb128 .Lend - main
	.byte	0, 1, 1		/* end_sequence */
.Lline_end:
	.section .note.GNU-stack, "", @progbits
