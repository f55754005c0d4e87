package history

import (
	"database/sql"
	"testing"

	_ "modernc.org/sqlite"
)

// exec changes the file of an index by a statement.
func exec(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)") // as the platform waits
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}
