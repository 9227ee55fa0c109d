package xregistry;

import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.Locale;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.command.CreateViewCommand;
import org.apache.spark.sql.execution.command.SetCommand;
import org.apache.spark.sql.delta.DeltaLogFileIndex;
import org.apache.spark.sql.delta.catalog.DeltaTableV2;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Option;
import scala.Product;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Checks each analyzed plan of a session: what only reads may run.
 *
 * <p>Spark calls it after it has analyzed a statement and before it runs anything of it, so also for the statements that a script,
 * an EXECUTE IMMEDIATE or an EXPLAIN holds. A command that is not known to read is refused.
 */
public class ReadOnly extends AbstractFunction1 {
  // Simple names of Spark's and Delta's plans: those that describe, and those that change the client's own session only.
  private static final Set READS = new HashSet(Arrays.asList(new Object[] {
    "DescribeColumn", "DescribeColumnCommand", "DescribeDatabaseCommand", "DescribeDeltaDetailCommand", "DescribeDeltaHistory",
    "DescribeDeltaHistoryCommand", "DescribeFunction", "DescribeFunctionCommand", "DescribeNamespace", "DescribeQueryCommand",
    "DescribeRelation", "DescribeRelationJsonCommand", "DescribeTableCommand", "DescribeTablePartition", "ExplainCommand",
    "ShowCatalogsCommand", "ShowCollationsCommand", "ShowColumns", "ShowColumnsCommand", "ShowCreateTable",
    "ShowCreateTableAsSerdeCommand", "ShowCreateTableCommand", "ShowCurrentNamespaceCommand", "ShowDeltaTableColumnsCommand",
    "ShowFunctions", "ShowFunctionsCommand", "ShowNamespacesCommand", "ShowPartitions", "ShowPartitionsCommand",
    "ShowTableColumnsCommand", "ShowTablePartition", "ShowTableProperties", "ShowTablePropertiesCommand", "ShowTables",
    "ShowTablesCommand", "ShowTablesExtended", "ShowViews", "ShowViewsCommand",
    "CloseCursor", "CreateVariable", "DeclareCursor", "DropTempViewCommand", "DropVariable", "FetchCursor", "OpenCursor",
    "SetCatalogAndNamespace", "SetCatalogCommand", "SetNamespaceCommand", "SetVariable"
  }));
  // They run programs, or any method of Java.
  private static final Set NEVER =
      new HashSet(Arrays.asList(new Object[] {"CallMethodViaReflection", "ScriptTransformation", "TryReflect"}));
  // They reach all tables of the schema without naming one.
  private static final Set WITH_THE_LOG = new HashSet(Arrays.asList(new Object[] {
    "AlterDatabaseSetLocationCommand", "DropDatabaseCommand", "DropNamespace", "SetNamespaceLocation"
  }));
  private static final Pattern LOG = Pattern.compile("\\bchanges\\b", Pattern.CASE_INSENSITIVE);

  /** Everything may run; only what reads; also what writes, but where the log `changes` occurs. */
  public static final int ALL = 0;
  public static final int READ = 1;
  public static final int WRITE = 2;

  // Options of functions that name a file to be read.
  private static final Set OF_FILES = new HashSet(Arrays.asList(new Object[] {"rowvalidationxsdpath", "avroschemaurl"}));

  private final Pattern settings;
  private volatile int allowed;

  /** Makes what checks new sessions: names of the settings that a client may set. */
  public ReadOnly(String settings) {
    this(Pattern.compile(settings), ALL);
  }

  private ReadOnly(Pattern settings, int allowed) {
    this.settings = settings;
    this.allowed = allowed;
  }

  /** Sets what sessions may run that are opened from now on. */
  public void allow(int allowed) {
    this.allowed = allowed;
  }

  /** Makes the check of a new session, or checks a plan. */
  public Object apply(Object item) {
    if (item instanceof SparkSession) {
      return new ReadOnly(settings, allowed);
    }
    if (allowed != ALL) {
      check(item, Collections.newSetFromMap(new IdentityHashMap()));
    }
    return BoxedUnit.UNIT;
  }

  private void check(Object item, Set seen) {
    if (allowed == READ && item != null && isPath(item)) {  // what writes reads files of its table so
      throw refused("a path", "tables and views are read by their names, and files are not read");
    }
    if (item instanceof TreeNode) {
      TreeNode node = (TreeNode) item;
      if (!seen.add(node)) {
        return;
      }
      String name = node.getClass().getSimpleName();
      if (NEVER.contains(name)) {
        throw refused(name, "it runs code of its own");
      }
      if (node instanceof Command && !reads(node, name)) {
        if (allowed == READ) {
          throw refused(name, "only what reads is run: queries, SHOW, DESCRIBE, EXPLAIN, USE, temporary views, settings of a query");
        }
        if (WITH_THE_LOG.contains(name) || LOG.matcher(node.treeString()).find()) {
          throw refused(name, "it would reach changes, the log that only the product writes");
        }
      }
      checkAll(node.innerChildren().iterator(), seen);
      checkAll(((Product) node).productIterator(), seen);
    } else if (item instanceof Tuple2) {  // of the options of a function
      Object key = ((Tuple2) item)._1();
      if (allowed == READ && key instanceof String && OF_FILES.contains(((String) key).toLowerCase(Locale.ROOT))) {
        throw refused((String) key, "files are not read");
      }
    } else if (item instanceof scala.collection.Iterable) {
      checkAll(((scala.collection.Iterable) item).iterator(), seen);
    } else if (item instanceof Option && ((Option) item).isDefined()) {
      check(((Option) item).get(), seen);
    }
  }

  private void checkAll(Iterator items, Set seen) {
    while (items.hasNext()) {
      check(items.next(), seen);
    }
  }

  /** Whether it is a table or a file by its path; Delta itself reads the files of its log so, in the session that asks. */
  private static boolean isPath(Object item) {
    if (item instanceof LogicalRelation) {
      LogicalRelation found = (LogicalRelation) item;
      return found.catalogTable().isEmpty() && !(found.relation() instanceof HadoopFsRelation
          && ((HadoopFsRelation) found.relation()).location() instanceof DeltaLogFileIndex);
    }
    return item instanceof DataSourceV2Relation && ((DataSourceV2Relation) item).identifier().isEmpty()
        || item instanceof DeltaTableV2 && ((DeltaTableV2) item).catalogTable().isEmpty()
        || item.getClass().getSimpleName().indexOf("PathBased") >= 0;
  }

  private boolean reads(TreeNode node, String name) {
    if (node instanceof SetCommand) {
      Option given = ((SetCommand) node).kv();
      return given.isEmpty()
          || ((Option) ((Tuple2) given.get())._2()).isEmpty()
          || settings.matcher((String) ((Tuple2) given.get())._1()).matches();
    }
    if (node instanceof CreateViewCommand) {
      return ((CreateViewCommand) node).viewType().getClass().getSimpleName().startsWith("LocalTempView");
    }
    return READS.contains(name);
  }

  private static RuntimeException refused(String what, String why) {
    return new UnsupportedOperationException("Refused (" + what + "): " + why + ".");
  }
}
