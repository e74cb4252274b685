#include "textflag.h"

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
