package wasmhost

import "fmt"

// Limits of an uploaded module. Most keep wazero's compiler, whose time grows faster than the
// size of one function, from being used as a weapon: 20,000 nested blocks in 140 KB took it 13 s.
const (
	maxModuleBytes     = 256 << 10 // C, Rust and AssemblyScript plugins have 1 to 20 KB
	maxGoModuleBytes   = 4 << 20   // an empty Go plugin has 1.8 MB
	maxTypes           = 4096
	maxParams          = 64
	maxResults         = 32
	maxFunctions       = 10_000
	maxTableElements   = 10_000 // per module: tables live on the Go heap of each instance
	maxTables          = 16
	maxGlobals         = 1000
	maxExports         = 1000
	maxSegments        = 10_000
	maxGoSegments      = 100_000 // Go's linker starts one after each few zeros: 37,000 with json
	maxBlocks          = 1000    // per function: 23 to 37 ms to compile; C plugins need 20
	maxNesting         = 512
	maxBodyBytes       = 64 << 10
	maxLocals          = 1000
	maxGoBlocks        = 2000 // the Go runtime needs 385
	maxGoNesting       = 1000 // and 296
	maxGoBodyBytes     = 128 << 10
	maxNameBytes       = 1024
	maxEffort          = 200_000 // of one function, see effort: up to 0.3 s to compile
	maxEfforts         = 1_000_000
	maxGoEffort        = 600_000   // encoding/json has a function of 256,000
	maxGoEfforts       = 8_000_000 // and with it a module has 3,600,000
	maxMemoryPagesEver = 16384     // 1 GiB
)

// limits are those that differ between the profiles.
type limits struct {
	goProfile   bool
	sizeBytes   int
	blocks      int
	nesting     int
	bodyBytes   int
	effort      int    // of a function
	efforts     int    // of all functions
	segments    uint32 // of data
	memoryPages uint32
}

func pluginLimits(memoryPages uint32) limits {
	return limits{sizeBytes: maxModuleBytes, blocks: maxBlocks, nesting: maxNesting,
		bodyBytes: maxBodyBytes, effort: maxEffort, efforts: maxEfforts, segments: maxSegments,
		memoryPages: memoryPages}
}

func goLimits(memoryPages uint32) limits {
	return limits{goProfile: true, sizeBytes: maxGoModuleBytes, blocks: maxGoBlocks,
		nesting: maxGoNesting, bodyBytes: maxGoBodyBytes, effort: maxGoEffort,
		efforts: maxGoEfforts, segments: maxGoSegments, memoryPages: memoryPages}
}

// checkSize looks at nothing but the length and the first eight bytes.
func (l *limits) checkSize(wasm []byte) error {
	if len(wasm) > l.sizeBytes {
		return fmt.Errorf("the module has %d bytes, at most %d are allowed", len(wasm), l.sizeBytes)
	}
	if len(wasm) < 8 || string(wasm[:4]) != "\x00asm" {
		return fmt.Errorf("this is not a WebAssembly module: it does not start with \"\\0asm\"")
	}
	if string(wasm[4:8]) != "\x01\x00\x00\x00" {
		return fmt.Errorf("version % x is not that of a WebAssembly core module, 01 00 00 00; "+
			"components are not supported", wasm[4:8])
	}
	return nil
}
