package influxdb

import (
	"fmt"
	"path/filepath"
)

const dataFolder = "data"

// configText is the configuration. What is not said is as by default: no authentication, and no
// limits to queries.
//
//   - bind-address, port 0: of backups, which no one makes.
//   - *-cold-duration: a shard that has rested for a second is brought into its final form.
const configText = `reporting-disabled = true
bind-address = "127.0.0.1:0"
[meta]
  dir = %[1]q
  logging-enabled = false
[data]
  dir = %[2]q
  wal-dir = %[3]q
  wal-fsync-delay = "0s"
  index-version = "tsi1"
  query-log-enabled = false
  cache-max-memory-size = 4294967296
  cache-snapshot-memory-size = 268435456
  cache-snapshot-write-cold-duration = "1s"
  compact-full-write-cold-duration = "1s"
  max-series-per-database = 0
  max-values-per-tag = 0
[coordinator]
  write-timeout = "1h"
[retention]
  enabled = false
[shard-precreation]
  enabled = false
[monitor]
  store-enabled = false
[subscriber]
  enabled = false
[continuous_queries]
  enabled = false
[http]
  bind-address = "127.0.0.1:%[4]d"
  auth-enabled = false
  log-enabled = false
  max-body-size = 0
[logging]
  level = "warn"
`

// config returns the configuration of a server in a folder.
func config(dir string, port int) []byte {
	return fmt.Appendf(nil, configText, filepath.Join(dir, "meta"), filepath.Join(dir, dataFolder),
		filepath.Join(dir, "wal"), port)
}
