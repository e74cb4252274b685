package examples

import (
	"fmt"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// What people of a kind clicked: a selector finds the people, and the aggregate reads their clicks
// where they are, without a table of kinds.
func Example_invertedSearch() {
	const news, shop, sport = 1, 2, 3
	d := open()
	defer d.close()
	var users []registry.Description
	for i := range 90 {
		city := []string{"oulu", "kemi", "lulea"}[i%3]
		users = append(users, registry.Description{Name: fmt.Sprint("user", i), Type: "user",
			Attributes: attributes("age", fmt.Sprint(i), "city", city)})
	}
	var b record.Batch
	for i, mid := range d.describe(users...) {
		for click := range i % 4 {
			b.Append(key(mid, int32(1+i%3), time.Duration(click)*time.Hour), nil)
		}
	}
	d.put(&b)

	q := selected("type=user, age=20..40, city in (oulu, kemi)", news, shop, sport)
	q.GroupBy.MOID = true
	for _, site := range d.groups(q, "distinct", "of", "mid") {
		fmt.Println("site", site.MOID, "clicks", site.Records, "users", site.value["distinct"])
	}
	// Output:
	// site 1 clicks 10 users 5
	// site 2 clicks 9 users 5
}
