package examples

import (
	"testing"

	"github.com/pentad-db/pentad/cluster-test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }
