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

// func addClock(values unsafe.Pointer, eights int, c *clockDecoding)
TEXT ·addClock(SB), NOSPLIT, $0-24
	MOVQ         values+0(FP), DI
	MOVQ         eights+8(FP), CX
	MOVQ         c+16(FP), AX
	VPBROADCASTQ 0(AX), Z4   // base
	VPBROADCASTQ 8(AX), Z5   // period
	VPBROADCASTQ 16(AX), Z6  // gcd
	VPBROADCASTQ 24(AX), Z7  // mask of what is below a tick
	VMOVQ        32(AX), X8  // bits below a tick

clockNext:
	VMOVDQU64 (DI), Z0
	VPSRLQ    X8, Z0, Z1
	VPANDQ    Z7, Z0, Z0
	VPMULLQ   Z5, Z1, Z1
	VPMULLQ   Z6, Z0, Z0
	VPADDQ    Z4, Z1, Z1
	VPADDQ    Z1, Z0, Z0
	VMOVDQU64 Z0, (DI)
	ADDQ      $64, DI
	DECQ      CX
	JNZ       clockNext
	VZEROUPPER
	RET
