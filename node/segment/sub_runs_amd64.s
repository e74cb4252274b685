#include "textflag.h"

// func fillEights(firsts *byte, eights int, places *[128][8]uint8, mids *int64, known *knownDevices,
//	out *int64) (done int)
TEXT ·fillEights(SB), NOSPLIT, $0-56
	MOVQ firsts+0(FP), SI
	MOVQ eights+8(FP), CX
	MOVQ places+16(FP), BX
	MOVQ mids+24(FP), DX
	MOVQ known+32(FP), R13
	MOVQ out+40(FP), DI
	MOVQ 0(R13), R8          // device of the row before
	MOVQ 8(R13), R9          // the last one
	MOVQ 16(R13), R10        // the next absent one
	MOVQ CX, R14

fillNext:
	MOVBLZX   (SI), AX
	POPCNTL   AX, R11
	ADDQ      R8, R11        // device of the last of these rows
	CMPQ      R11, R10
	JGE       fillEnd
	MOVL      AX, R12
	ANDL      $1, R12
	ADDQ      R8, R12        // device of the first
	CMPQ      R12, R9
	CMOVQHI   R9, R12
	SHRL      $1, AX
	VPMOVZXBQ (BX)(AX*8), Z0
	VPERMQ    (DX)(R12*8), Z0, Z1
	VMOVDQU64 Z1, (DI)
	ADDQ      $64, DI
	INCQ      SI
	MOVQ      R11, R8
	DECQ      CX
	JNZ       fillNext

fillEnd:
	MOVQ R8, 0(R13)
	SUBQ CX, R14
	MOVQ R14, done+48(FP)
	VZEROUPPER
	RET

// func selectFirsts(firsts *byte, row, end, n, more int) (first, last int)
TEXT ·selectFirsts(SB), NOSPLIT, $0-56
	MOVQ firsts+0(FP), SI
	MOVQ row+8(FP), CX
	MOVQ end+16(FP), DX
	MOVQ n+24(FP), R8
	MOVQ more+32(FP), R9
	MOVQ CX, BX
	ANDQ $~63, BX            // the row of the first bit of a word
	MOVQ BX, AX
	SHRQ $3, AX
	ADDQ AX, SI
	MOVQ $-1, R10
	SHLXQ CX, R10, R10
	ANDQ (SI), R10           // what is left of the word

selectNext:
	POPCNTQ R10, R11
	CMPQ    R8, R11
	JLT     selectFound
	SUBQ    R11, R8
	ADDQ    $8, SI
	ADDQ    $64, BX
	CMPQ    BX, DX
	JGE     selectNone
	MOVQ    (SI), R10
	JMP     selectNext

selectFound:
	MOVQ    $1, R12
	SHLXQ   R8, R12, R12
	PDEPQ   R10, R12, R12    // the bit that is searched for
	TZCNTQ  R12, R13
	ADDQ    BX, R13
	CMPQ    R13, DX
	CMOVQGT DX, R13
	MOVQ    R13, first+40(FP)
	DECQ    R12
	ANDNQ   R10, R12, R10    // without those before it
	MOVQ    R9, R8

selectLast:
	POPCNTQ R10, R11
	CMPQ    R8, R11
	JLT     selectEnd
	SUBQ    R11, R8
	ADDQ    $8, SI
	ADDQ    $64, BX
	CMPQ    BX, DX
	JGE     selectToEnd
	MOVQ    (SI), R10
	JMP     selectLast

selectEnd:
	MOVQ    $1, R12
	SHLXQ   R8, R12, R12
	PDEPQ   R10, R12, R12
	TZCNTQ  R12, R13
	ADDQ    BX, R13
	CMPQ    R13, DX
	CMOVQGT DX, R13
	MOVQ    R13, last+48(FP)
	RET

selectNone:
	MOVQ DX, first+40(FP)

selectToEnd:
	MOVQ DX, last+48(FP)
	RET
