package xregistry;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.spark.SparkConf;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction2;

/**
 * Gives sessions a parser that first sets back what their client must not set.
 *
 * <p>A client of the SQL server can name any setting in its address: they are there before its first statement, and no check of a
 * plan sees them. Some load classes (catalogs), some let a statement read environment variables, files or other file systems.
 */
public class OwnSettings extends AbstractFunction2 implements InvocationHandler {
  private final Pattern ofClients;
  private final Map fixed;
  private final SparkSession session;
  private final Object parser;
  private volatile boolean wanted;

  /** Makes what guards new sessions: names that their clients may set, and settings that are as given here. */
  public OwnSettings(String ofClients, Map fixed) {
    this(Pattern.compile(ofClients), fixed, null, null);
  }

  private OwnSettings(Pattern ofClients, Map fixed, SparkSession session, Object parser) {
    this.ofClients = ofClients;
    this.fixed = fixed;
    this.session = session;
    this.parser = parser;
  }

  /** Sets whether sessions that are opened from now on are guarded. */
  public void want(boolean wanted) {
    this.wanted = wanted;
  }

  /** Makes the parser of a new session. */
  public Object apply(Object session, Object parser) {
    if (!wanted) {
      return parser;
    }
    OwnSettings own = new OwnSettings(ofClients, fixed, (SparkSession) session, parser);
    return Proxy.newProxyInstance(ParserInterface.class.getClassLoader(), new Class[] {ParserInterface.class}, own);
  }

  /** Sets back, then parses. */
  public Object invoke(Object proxy, Method method, Object[] given) throws Throwable {
    if (method.getName().startsWith("parse")) {
      setBack();
    }
    try {
      return method.invoke(parser, given);
    } catch (InvocationTargetException error) {
      throw error.getCause();
    }
  }

  private void setBack() {
    SQLConf conf = session.sessionState().conf();
    SparkConf base = session.sparkContext().getConf();
    Iterator all = conf.getAllConfs().iterator();
    while (all.hasNext()) {
      Tuple2 one = (Tuple2) all.next();
      String key = (String) one._1();
      Option own = base.getOption(key);
      if (!fixed.containsKey(key) && !ofClients.matcher(key).matches() && !(own.isDefined() && own.get().equals(one._2()))) {
        if (own.isDefined()) {
          conf.setConfString(key, (String) own.get());
        } else {
          conf.unsetConf(key);
        }
      }
    }
    java.util.Iterator kept = fixed.entrySet().iterator();
    while (kept.hasNext()) {
      Map.Entry one = (Map.Entry) kept.next();
      conf.setConfString((String) one.getKey(), (String) one.getValue());
    }
  }
}
