#include "textflag.h"

// func expandBits(bits *byte, e *expansion, places *[256][8]uint8, mids, out *int64, rows int)
TEXT ·expandBits(SB), NOSPLIT, $0-48
	MOVQ bits+0(FP), SI
	MOVQ e+8(FP), AX
	MOVQ places+16(FP), BX
	MOVQ mids+24(FP), DX
	MOVQ out+32(FP), DI
	MOVQ rows+40(FP), R11
	MOVQ 0(AX), CX           // the next bit
	MOVQ 8(AX), R10          // the end of all
	MOVQ 16(AX), R8          // ones before
	MOVQ 24(AX), R9          // at most
	SUBQ CX, R10
	ADDQ $7, R10
	SARQ $3, R10             // how many times eight bits there are
	JLE  expanded
	MOVQ CX, R12
	SHRQ $3, R12
	ADDQ R12, SI
	ANDQ $7, CX              // bits before the next in its byte
	CMPQ R11, $8
	JLT  expandLast

expandNext:
	MOVWLZX   (SI), AX
	SHRXL     CX, AX, AX
	MOVBLZX   AX, AX
	MOVQ      R8, R12
	CMPQ      R8, R9
	CMOVQGT   R9, R12
	VPMOVZXBQ (BX)(AX*8), Z0
	VPERMQ    (DX)(R12*8), Z0, Z1
	VMOVDQU64 Z1, (DI)
	POPCNTL   AX, AX
	ADDQ      AX, R8
	MOVL      $8, R13
	SUBQ      AX, R13        // rows
	LEAQ      (DI)(R13*8), DI
	SUBQ      R13, R11
	INCQ      SI
	DECQ      R10
	JZ        expanded
	CMPQ      R11, $8
	JGE       expandNext

// Fewer than eight rows are left.
expandLast:
	TESTQ     R11, R11
	JLE       expanded
	MOVWLZX   (SI), AX
	SHRXL     CX, AX, AX
	MOVBLZX   AX, AX
	MOVQ      R8, R12
	CMPQ      R8, R9
	CMOVQGT   R9, R12
	VPMOVZXBQ (BX)(AX*8), Z0
	VPERMQ    (DX)(R12*8), Z0, Z1
	MOVL      $1, R13
	SHLXL     R11, R13, R13
	DECL      R13
	KMOVW     R13, K1
	VMOVDQU64 Z1, K1, (DI)
	POPCNTL   AX, AX
	ADDQ      AX, R8
	MOVL      $8, R13
	SUBQ      AX, R13
	LEAQ      (DI)(R13*8), DI
	SUBQ      R13, R11
	INCQ      SI
	DECQ      R10
	JNZ       expandLast

expanded:
	VZEROUPPER
	RET

// func numberBits(bits *byte, e *expansion, below *[32]uint32, out *uint32, rows int)
TEXT ·numberBits(SB), NOSPLIT, $0-40
	MOVQ         bits+0(FP), SI
	MOVQ         e+8(FP), AX
	MOVQ         below+16(FP), BX
	MOVQ         out+24(FP), DI
	MOVQ         rows+32(FP), R11
	MOVQ         0(AX), CX        // the next bit
	MOVQ         8(AX), R10       // the end of all
	MOVQ         16(AX), R8       // ones before
	DECQ         R8
	VPBROADCASTD R8, Z5           // the device
	VMOVDQU32    (BX), Z6
	VMOVDQU32    64(BX), Z7
	LEAQ         (DI)(R11*4), R11 // where the last row ends
	SUBQ         CX, R10
	ADDQ         $31, R10
	SARQ         $5, R10          // how many times 32 bits there are
	JLE          numbered
	MOVQ         CX, R12
	SHRQ         $3, R12
	ADDQ         R12, SI
	ANDQ         $7, CX           // bits before the next in its byte

numberNext:
	MOVQ         (SI), AX
	SHRXQ        CX, AX, AX
	VPBROADCASTD AX, Z0
	VPANDD       Z0, Z6, Z1       // bits before each of them
	VPANDD       Z0, Z7, Z2
	VPOPCNTD     Z0, Z3
	VPOPCNTD     Z1, Z1
	VPOPCNTD     Z2, Z2
	VPADDD       Z5, Z1, Z1
	VPADDD       Z5, Z2, Z2
	VPADDD       Z3, Z5, Z5
	NOTL         AX
	KMOVW        AX, K1
	MOVWLZX      AX, R8
	SHRL         $16, AX
	KMOVW        AX, K2
	POPCNTL      R8, R8
	POPCNTL      AX, AX
	VPCOMPRESSD  Z1, K1, Z1
	VPCOMPRESSD  Z2, K2, Z2
	VMOVDQU32    Z1, (DI)
	LEAQ         (DI)(R8*4), DI
	VMOVDQU32    Z2, (DI)
	LEAQ         (DI)(AX*4), DI
	ADDQ         $4, SI
	DECQ         R10
	JZ           numbered
	CMPQ         DI, R11
	JLT          numberNext

numbered:
	VZEROUPPER
	RET

// func selectOnes(bits *byte, bit, end, n, more int) (first, last int)
TEXT ·selectOnes(SB), NOSPLIT, $0-56
	MOVQ bits+0(FP), SI
	MOVQ bit+8(FP), CX
	MOVQ end+16(FP), DX
	MOVQ n+24(FP), R8
	MOVQ more+32(FP), R9
	MOVQ CX, BX
	ANDQ $~63, BX            // the first bit of its word
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
