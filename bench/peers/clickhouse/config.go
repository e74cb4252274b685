package clickhouse

import (
	"bytes"
	"encoding/xml"
	"fmt"
)

// configText is the whole configuration, users included.
//
//   - keep_alive_timeout: our one connection lives as long as the server.
//   - parts_to_delay_insert, parts_to_throw_insert: a load is a part per batch; merges keep up in
//     the mean, and an insert waits rather than fails when they do not.
//   - old_parts_lifetime: merged parts are kept for a second, not eight minutes, or they would
//     be weighed.
const configText = `<yandex>
	<logger><level>warning</level></logger>
	<listen_host>127.0.0.1</listen_host>
	<http_port>%[2]d</http_port>
	<keep_alive_timeout>86400</keep_alive_timeout>
	<max_connections>16</max_connections>
	<path>%[1]s/data/</path>
	<tmp_path>%[1]s/tmp/</tmp_path>
	<mark_cache_size>1073741824</mark_cache_size>
	<default_database>default</default_database>
	<default_profile>default</default_profile>
	<profiles><default>
		<max_memory_usage>8589934592</max_memory_usage>
		<max_bytes_before_external_group_by>4294967296</max_bytes_before_external_group_by>
		<max_bytes_before_external_sort>4294967296</max_bytes_before_external_sort>
	</default></profiles>
	<users><default>
		<password></password>
		<networks><ip>127.0.0.1</ip></networks>
		<profile>default</profile>
		<quota>default</quota>
	</default></users>
	<quotas><default/></quotas>
	<merge_tree>
		<parts_to_delay_insert>300</parts_to_delay_insert>
		<parts_to_throw_insert>10000</parts_to_throw_insert>
		<old_parts_lifetime>1</old_parts_lifetime>
	</merge_tree>
</yandex>
`

func config(dir string, port int) ([]byte, error) {
	var escaped bytes.Buffer
	if err := xml.EscapeText(&escaped, []byte(dir)); err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, configText, escaped.String(), port), nil
}
